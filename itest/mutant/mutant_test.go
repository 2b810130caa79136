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

var mutantsFlag = flag.Bool("mutants", false, "TestMutants builds package observed with each planted bug")

const (
	root     = "../.." // the folder of the library
	observed = "internal/observed"
)

// A patch that no longer applies finds nothing, so it must not be forgotten until the next time
// that all are tried.
func TestEachPatchApplies(t *testing.T) {
	for folder, least := range map[string]int{".": 40, filepath.Join(root, observed, "mutants"): 19} {
		all, err := All(folder)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(all), least, folder)
		for _, m := range all {
			_, err := m.Overlay(t.Context(), root, t.TempDir())
			assert.NoError(t, err)
		}
	}
}

// TestMutants builds the tests of package observed with each of the planted bugs that it has next to
// it, and asserts that the test which the bug names fails. Package sim has that for the simulation.
func TestMutants(t *testing.T) {
	if !*mutantsFlag {
		return
	}
	all, err := All(filepath.Join(root, observed, "mutants"))
	require.NoError(t, err)
	began := time.Now()
	var found atomic.Int64
	Each(all, func(m Mutant) {
		exe, err := m.Build(t.Context(), root, "./"+filepath.Join(root, observed), t.TempDir())
		if !assert.NoError(t, err) {
			return
		}
		run := exec.CommandContext(t.Context(), exe, "-test.run=^"+m.Test+"$", "-test.timeout=1m") // a test that hangs has not found it
		run.Dir = filepath.Join(root, observed)
		out, err := run.CombinedOutput()
		failed := regexp.MustCompile(`(?m)^--- FAIL: ` + m.Test + ` `)
		if assert.Error(t, err, "%s is not found", m.Name) && assert.Regexp(t, failed, string(out), m.Name) {
			found.Add(1)
			t.Logf("%-21s found by %s", m.Name, m.Test)
		}
	})
	t.Logf("found %d of %d planted bugs in package observed in %s", found.Load(), len(all), time.Since(began).Round(time.Millisecond))
}
