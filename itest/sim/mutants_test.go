//go:build failpoints

package sim

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/memtest"
)

// enough is the most runs that the simulation may need to find a planted bug.
const enough = 10000

// TestMutants turns on each failpoint, and asserts that the simulation finds the bug. A
// failpoint is on for a whole process, so each has one of its own, as many at once as there
// are processors.
func TestMutants(t *testing.T) {
	if *onlyFlag != "" {
		mutant(t, *onlyFlag)
		return
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	began := time.Now()
	var caught atomic.Int64
	var running sync.WaitGroup
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range failpoint.All() {
		running.Go(func() {
			processors <- struct{}{}
			defer func() { <-processors }()
			said, err := exec.CommandContext(t.Context(), exe, "-test.run=^TestMutants$", "-test.v", "-only="+p.String()).CombinedOutput()
			if found := caughtLine.FindSubmatch(said); err == nil && found != nil {
				caught.Add(1)
				t.Log(string(found[1]))
				return
			}
			t.Errorf("%s: %v\n%s", p, err, said)
		})
	}
	running.Wait()
	t.Logf("caught %d of %d failpoints in %s", caught.Load(), len(failpoint.All()), time.Since(began).Round(time.Millisecond))
}

var caughtLine = regexp.MustCompile(`(?m)^.*?: (.* caught by run .*)$`)

// mutant turns on one failpoint.
func mutant(t *testing.T, name string) {
	defer failpoint.Disable()
	p := failpointOf(t, name)
	failpoint.Enable(p)
	kinds := kindsOf(p)
	for n := range enough {
		k := kinds[n%len(kinds)]
		cfg := Config{Seed: uint64(n), Kind: k.Name, Service: k.Options, Recipe: recipeOf(p)}
		if r := Run(t, cfg); len(r.Violations) > 0 {
			t.Logf("%-21s caught by run %4d (%s, %s): %s", p, n+1, r.Recipe, k.Name, r.Violations[0])
			return
		}
	}
	t.Errorf("%s is not caught by %d runs", p, enough)
}

// failpointOf returns the failpoint of a name.
func failpointOf(t *testing.T, name string) failpoint.Point {
	all := failpoint.All()
	i := slices.IndexFunc(all, func(p failpoint.Point) bool { return p.String() == name })
	require.GreaterOrEqual(t, i, 0, "no failpoint %q: there are %v", name, all)
	return all[i]
}

var (
	onlyFlag      = flag.String("only", "", "the failpoint that TestMutants tries; all if empty")
	failpointFlag = flag.String("failpoint", "", "the failpoint that TestMutantReplay turns on")
)

// TestMutantReplay is TestReplay with a failpoint on.
func TestMutantReplay(t *testing.T) {
	if *failpointFlag == "" {
		return
	}
	defer failpoint.Disable()
	failpoint.Enable(failpointOf(t, *failpointFlag))
	TestReplay(t)
}

// kindsOf returns the kinds of service on which a failpoint can show.
func kindsOf(p failpoint.Point) []memtest.Kind {
	kinds := memtest.AllKinds()
	return slices.DeleteFunc(kinds, func(k memtest.Kind) bool {
		switch p {
		case failpoint.OldRead, failpoint.LimitFirst:
			return k.Options.Stale == 0
		case failpoint.WaiterReportedFirst:
			return !k.Options.First
		case failpoint.UnclearGrants:
			return k.Name != "Terse"
		default:
			return false
		}
	})
}

// recipeOf returns the recipe that a failpoint is in, if it is in one only.
func recipeOf(p failpoint.Point) string {
	switch p {
	case failpoint.ReaderPasses, failpoint.DowngradeAnew, failpoint.EndsInTurn, failpoint.WriterReplaced:
		return "rwlock"
	case failpoint.NoAdmittedMark, failpoint.OldLimit, failpoint.LimitCopied, failpoint.OldRead, failpoint.LimitFirst, failpoint.LateView,
		failpoint.PermitByEvent, failpoint.LostUnread, failpoint.SlotUnclaimed, failpoint.LimitMissed:
		return "semaphore"
	case failpoint.OnceForgets:
		return "once"
	case failpoint.ProclaimEnds:
		return "election"
	case failpoint.UnclearGrants, failpoint.GrantInDoubt:
		return "mutex"
	case failpoint.JoinInTurn:
		return "all"
	case failpoint.LedgerClearedByWaiter, failpoint.JoinerDied, failpoint.SeveralNamed, failpoint.WaiterNamed, failpoint.PastOfFirst:
		return "robust"
	default:
		return ""
	}
}
