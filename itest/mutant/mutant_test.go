package mutant

import (
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var mutantsFlag = flag.Bool("mutants", false, "TestMutants builds the packages of planted with each planted bug")

const root = "../.." // the folder of the library

// planted are the folders with planted bugs that tests of the packages find, and how many there are at
// least.
func planted() map[string]int {
	return map[string]int{"internal/observed": 23, "internal/queue": 5, "recipes/recipetest": 4, "pgbackend": 14, "redisbackend": 62, "recipes/election": 12}
}

// A patch that no longer applies finds nothing, so it must not be forgotten until the next time
// that all are tried.
func TestEachPatchApplies(t *testing.T) {
	folders := map[string]int{".": 41}
	for folder, least := range planted() {
		folders[filepath.Join(root, folder, "mutants")] = least
	}
	for folder, least := range folders {
		all, err := All(folder)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(all), least, folder)
		for _, m := range all {
			_, err := m.Overlay(t.Context(), root, t.TempDir())
			assert.NoError(t, err)
		}
	}
}

// TestMutants builds the tests of a package with each of the bugs that are planted in it, and asserts that
// the test which the bug names fails. Package sim has that for the simulation.
func TestMutants(t *testing.T) {
	if !*mutantsFlag {
		return
	}
	var all []Mutant
	for folder := range planted() {
		some, err := All(filepath.Join(root, folder, "mutants"))
		require.NoError(t, err)
		all = append(all, some...)
	}
	began := time.Now()
	var found atomic.Int64
	Each(all, func(m Mutant) {
		folder := filepath.Join(root, m.Package)
		exe, err := m.Build(t.Context(), root, "./"+folder, t.TempDir())
		if !assert.NoError(t, err) {
			return
		}
		run := exec.CommandContext(t.Context(), exe, "-test.run=^"+m.Test+"$", "-test.timeout=1m") // a test that hangs has not found it
		run.Dir = folder
		out, err := run.CombinedOutput()
		failed := regexp.MustCompile(`(?m)^ *--- FAIL: ` + m.Test + ` `)
		if assert.Error(t, err, "%s is not found", m.Name) && assert.Regexp(t, failed, string(out), m.Name) {
			found.Add(1)
			t.Logf("%-21s found by %s", m.Name, m.Test)
		}
	})
	t.Logf("found %d of %d planted bugs in packages in %s", found.Load(), len(all), time.Since(began).Round(time.Millisecond))
}
