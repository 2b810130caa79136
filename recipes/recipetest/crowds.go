package recipetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// crowds are the stories of many holders beside whom there is room.
func crowds() []story {
	return []story{
		{"AFreeReadLockBehindManyCostsAtMostThreeRoundTrips", freeReader},
		{"AFreePermitBehindManyCostsAtMostThreeRoundTrips", freePermit},
	}
}

// crowd is how many hold: in memory as many as the figure is promised for.
func (w *world) crowd() int {
	if w.h.Virtual {
		return 1000
	}
	return 200
}

func freeReader(w *world) {
	w.besideMany(3, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return rwlock.New(s, name).RLock(ctx)
	})
}

// freePermit allows for one request more: in the background the entry notes that it
// was admitted, and that may be counted or come later.
func freePermit(w *world) {
	w.besideMany(4, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return semaphore.New(s, name, 10_000).Acquire(ctx, 1)
	})
}

// besideMany lets one session hold many times, and counts what one more hold of
// another session sends: at most so many requests.
func (w *world) besideMany(most int, lock func(context.Context, *session.Session) (*session.Hold, error)) {
	many, one := w.party("many"), w.party("one")
	for range w.crowd() {
		_, err := lock(w.soon(), many.Session)
		require.NoError(w.t, err)
		<-many.joined
	}
	var h *session.Hold
	costs := w.h.Costs(one.net, func() {
		var err error
		h, err = lock(w.soon(), one.Session)
		require.NoError(w.t, err)
		<-one.joined
	}, func() { w.unlock(h) })
	assert.LessOrEqual(w.t, costs[0], most, "requests to hold behind %d holders", w.crowd())
}
