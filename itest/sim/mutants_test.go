//go:build mutants

package sim

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/defect"
	"github.com/fairlock/fairlock/membackend/memtest"
)

// enough is within how many runs a planted defect must be found.
const enough = 2000

// TestMutants plants each defect, and holds that the simulation finds it.
func TestMutants(t *testing.T) {
	defer defect.Plant(defect.None)
	caught := 0
	began := time.Now()
	for _, d := range defect.All() {
		defect.Plant(d)
		kinds, found := kindsOf(d), false
		for n := range enough {
			k := kinds[n%len(kinds)]
			cfg := Config{Seed: uint64(n), Kind: k.Name, Service: k.Options, Recipe: recipeOf(d)}
			if r := Run(t, cfg); len(r.Violations) > 0 {
				found = true
				caught++
				t.Logf("%-18s caught by run %4d (%s, %s): %s", d, n+1, r.Recipe, k.Name, r.Violations[0])
				break
			}
		}
		assert.True(t, found, "%s is not caught by %d runs", d, enough)
	}
	t.Logf("caught %d of %d planted defects in %s", caught, len(defect.All()), time.Since(began).Round(time.Millisecond))
}

var defectFlag = flag.String("defect", "", "the defect that TestMutantReplay plants")

// TestMutantReplay is TestReplay with a defect.
func TestMutantReplay(t *testing.T) {
	defer defect.Plant(defect.None)
	for _, d := range defect.All() {
		if d.String() == *defectFlag {
			defect.Plant(d)
			TestReplay(t)
		}
	}
}

// kindsOf are the kinds of service on which a defect can show.
func kindsOf(d defect.Defect) []memtest.Kind {
	kinds := memtest.AllKinds()
	return slices.DeleteFunc(kinds, func(k memtest.Kind) bool {
		switch d {
		case defect.MovedGone, defect.MovedComplete:
			return !k.Options.Moves
		case defect.OldLook:
			return !k.Options.Stale
		case defect.ReadAfterOwn:
			return !k.Options.OwnUnarmed
		default:
			return false
		}
	})
}

// recipeOf is the recipe that has a defect, if only one has it.
func recipeOf(d defect.Defect) string {
	switch d {
	case defect.ReaderPasses, defect.DowngradeAnew, defect.MovedGone, defect.MovedComplete, defect.EndsInTurn:
		return "rwlock"
	case defect.NoNote, defect.OldLimit, defect.LimitCopied, defect.OldLook:
		return "semaphore"
	case defect.ProclaimEnds:
		return "election"
	case defect.JoinInTurn:
		return "all"
	case defect.StruckByWaiter:
		return "robust"
	default:
		return ""
	}
}
