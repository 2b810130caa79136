package recipetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// testCase is one promise.
type testCase struct {
	name string
	run  func(w *Fixture)
}

// over returns a case for each of all, which takes the place of %v in the name.
func over[F any](name string, all []F, run func(w *Fixture, f F)) []testCase {
	var cases []testCase
	for _, f := range all {
		cases = append(cases, testCase{fmt.Sprintf(name, f), func(w *Fixture) { run(w, f) }})
	}
	return cases
}

// replicated are the cases that can fail for the reason that several servers
// answer, see drivertest.Harness: order, stale reads, losses, lost and late requests.
func replicated() []testCase {
	return slices.Concat(grants(), losses(), outcomes(), cuts(), passes())
}

// single are the cases for which one server is enough. Both lists are in the order in
// which they are best read.
func single() []testCase {
	return slices.Concat(
		crowds(), ends(), blockedReports(), traces(),
		readWrites(), readWriteEnds(), readerLosses(), downgrades(), unknowns(), reentrants(),
		semaphores(), semaphoreEnds(), semaphoreLimits(), semaphoreCrowds(),
		elections(), observations(), leading(), rollOuts(),
		several(), severalLost(), robust(), robustWaits(), givingUp(), delays(),
		yieldRequests(), yieldKinds(), evictions(), janitors(), reasons(), heldFor(), onces(), nameds(),
		borders(),
	)
}

// Run runs all cases, or those of Harness.Replicated and of Harness.Turn, as subtests; in virtual time also those
// that count requests, and with Harness.NoForeign none of entries of other programs. Of the
// Harness.Topics only life has cases here: with any, Run runs those. At the end of each one the
// queue must be empty.
func Run(t *testing.T, h drivertest.Harness) {
	all := lives(h.Lives)
	if h.Topics == nil {
		all = append(all, others(h)...)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			h.RunCase(t, func(t *testing.T, h drivertest.Harness) {
				w := NewFixture(t, h)
				s.run(w)
				w.attend()
				w.eventually(0, "nothing is left at the end")
			})
		})
	}
}

// others are the cases that need no new life of the service.
func others(h drivertest.Harness) []testCase {
	ofOthers := func(c testCase) bool { return h.Turn != nil && !h.Turn(c.name) }
	all := replicated()
	if h.Replicated {
		all = slices.DeleteFunc(all, ofOthers)
	} else {
		all = append(all, slices.DeleteFunc(single(), ofOthers)...)
		if !h.NoForeign {
			all = append(all, foreigns()...)
		}
	}
	if h.Virtual {
		all = append(all, counts()...)
	}
	return all
}
