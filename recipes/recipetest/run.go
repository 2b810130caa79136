package recipetest

import (
	"testing"

	"github.com/fairlock/fairlock/session/drivertest"
)

// story is one promise.
type story struct {
	name string
	tell func(w *Fixture)
}

// stories are all of them, in the order in which they are best read.
func stories() []story {
	var all []story
	for _, part := range [][]story{
		grants(), gaps(), crowds(), ends(), losses(), outcomes(), cuts(), blockedReports(),
		readWrites(), readWriteEnds(), readerLosses(), downgrades(), unknowns(), insiders(), entering(), wrongHolds(),
		semaphores(), semaphoreEnds(), semaphoreLimits(), semaphoreCrowds(),
		elections(), observations(), leading(),
		several(), severalLost(), robust(), givingUp(), delays(),
		asks(), askedKinds(), evictions(), janitors(), tries(), reasons(), heldFor(),
	} {
		all = append(all, part...)
	}
	return all
}

// Run tells all stories, as subtests.
func Run(t *testing.T, h drivertest.Harness) {
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			h.Tell(t, func(t *testing.T, h drivertest.Harness) { s.tell(NewFixture(t, h)) })
		})
	}
}
