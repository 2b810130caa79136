package sim

import (
	"flag"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/itest/mutant"
)

var (
	mutantsFlag = flag.Bool("mutants", false, "TestMutants builds the simulation with each planted bug")
	onlyFlag    = flag.String("only", "", "the mutant that TestMutants tries, by its name; all if empty")
	serviceFlag = flag.String("service", "", "the kinds of service that TestFinds simulates; all if empty")
	findsFlag   = flag.Bool("finds", false, "TestFinds runs until it finds a bug, with -recipe")
)

// enough is the most runs that the simulation may need to find a planted bug.
const enough = 10000

// TestMutants builds this package with each planted bug, as many at once as there are processors,
// and asserts that the simulation finds the bug.
func TestMutants(t *testing.T) {
	if !*mutantsFlag {
		return
	}
	all, err := mutant.All("../mutant")
	require.NoError(t, err)
	if *onlyFlag != "" {
		all = slices.DeleteFunc(all, func(m mutant.Mutant) bool { return m.Name != *onlyFlag })
		require.NotEmpty(t, all, "there is no mutant %q", *onlyFlag)
	}
	began := time.Now()
	var caught atomic.Int64
	mutant.Each(all, func(m mutant.Mutant) {
		said, err := simulate(t, m)
		found := caughtLine.FindStringSubmatch(said)
		if err != nil || found == nil {
			t.Errorf("%s: %v\n%s", m.Name, err, said)
			return
		}
		caught.Add(1)
		t.Logf("%-21s %s", m.Name, found[1])
	})
	t.Logf("caught %d of %d planted bugs in %s", caught.Load(), len(all), time.Since(began).Round(time.Millisecond))
}

var caughtLine = regexp.MustCompile(`(?m)^.*?: (caught by run .*)$`)

// simulate builds this package with a planted bug, runs TestFinds, and returns its output.
func simulate(t *testing.T, m mutant.Mutant) (string, error) {
	exe, err := m.Build(t.Context(), "../..", ".", t.TempDir())
	if err != nil {
		return "", err
	}
	run := exec.CommandContext(t.Context(), exe, "-test.run=^TestFinds$", "-test.v", "-finds", "-recipe="+m.Recipe, "-service="+m.Service)
	said, err := run.CombinedOutput()
	return string(said), err
}

// TestFinds simulates until it finds a bug. TestMutants runs it in a build that has one.
func TestFinds(t *testing.T) {
	if !*findsFlag {
		return
	}
	kinds := memtest.AllKinds()
	kinds = slices.DeleteFunc(kinds, func(k memtest.Kind) bool { return !shows(k, *serviceFlag) })
	require.NotEmpty(t, kinds, *serviceFlag)
	for n := range enough {
		k := kinds[n%len(kinds)]
		r := Run(t, Config{Seed: uint64(n), Kind: k.Name, Service: k.Options, Recipe: *recipeFlag})
		if len(r.Violations) > 0 {
			t.Logf("caught by run %4d (%s, %s): %s", n+1, r.Recipe, k.Name, r.Violations[0])
			return
		}
	}
	t.Errorf("nothing is found in %d runs", enough)
}

// shows reports whether a kind of service is one of those that a mutant names.
func shows(k memtest.Kind, service string) bool {
	switch service {
	case "Stale":
		return k.Options.Stale > 0
	case "First":
		return k.Options.First
	}
	return service == "" || k.Name == service
}

func TestEachMutantNamesAServiceThatThereIs(t *testing.T) {
	all, err := mutant.All("../mutant")
	require.NoError(t, err)
	for _, m := range all {
		is := func(k memtest.Kind) bool { return shows(k, m.Service) }
		assert.True(t, slices.ContainsFunc(memtest.AllKinds(), is), strings.Join([]string{m.Name, m.Service}, ": "))
	}
}
