//go:build failpoints

package sim

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/memtest"
)

// enough is the most runs that the simulation may need to find a planted bug.
const enough = 10000

// TestMutants turns on each failpoint, and asserts that the simulation finds the bug.
func TestMutants(t *testing.T) {
	defer failpoint.Disable()
	caught := 0
	began := time.Now()
	for _, p := range failpoint.All() {
		if *onlyFlag != "" && *onlyFlag != p.String() {
			continue
		}
		failpoint.Enable(p)
		kinds, found := kindsOf(p), false
		for n := range enough {
			k := kinds[n%len(kinds)]
			cfg := Config{Seed: uint64(n), Kind: k.Name, Service: k.Options, Recipe: recipeOf(p)}
			if r := Run(t, cfg); len(r.Violations) > 0 {
				found = true
				caught++
				t.Logf("%-21s caught by run %4d (%s, %s): %s", p, n+1, r.Recipe, k.Name, r.Violations[0])
				break
			}
		}
		assert.True(t, found, "%s is not caught by %d runs", p, enough)
	}
	t.Logf("caught %d of %d failpoints in %s", caught, len(failpoint.All()), time.Since(began).Round(time.Millisecond))
}

var (
	onlyFlag      = flag.String("only", "", "the failpoint that TestMutants tries; all if empty")
	failpointFlag = flag.String("failpoint", "", "the failpoint that TestMutantReplay turns on")
)

// TestMutantReplay is TestReplay with a failpoint on.
func TestMutantReplay(t *testing.T) {
	defer failpoint.Disable()
	for _, p := range failpoint.All() {
		if p.String() == *failpointFlag {
			failpoint.Enable(p)
			TestReplay(t)
		}
	}
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
	case failpoint.ReaderPasses, failpoint.DowngradeAnew, failpoint.EndsInTurn:
		return "rwlock"
	case failpoint.NoAdmittedMark, failpoint.OldLimit, failpoint.LimitCopied, failpoint.OldRead, failpoint.LimitFirst, failpoint.LateView,
		failpoint.PermitByEvent, failpoint.LostUnread, failpoint.SlotUnclaimed:
		return "semaphore"
	case failpoint.ProclaimEnds:
		return "election"
	case failpoint.UnclearGrants, failpoint.GrantInDoubt:
		return "mutex"
	case failpoint.JoinInTurn:
		return "all"
	case failpoint.LedgerClearedByWaiter, failpoint.JoinerDied:
		return "robust"
	default:
		return ""
	}
}
