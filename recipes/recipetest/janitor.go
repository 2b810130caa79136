package recipetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// janitors are the cases of what is removed in the background.
func janitors() []testCase {
	return []testCase{
		{"RemovalsThatAreRefusedDoNotDelayOthers", refusedRemovals},
		{"CloseFinishesThePendingReleaseOfARobustMutex", closeFinishes},
	}
}

// leaving is a backend whose sessions call a function before they delete an entry.
type leaving struct {
	driver.Backend
	refuse func(queue string) error
}

// Open implements driver.Backend.
func (l leaving) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := l.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return leavingSession{s, l.refuse}, nil
}

type leavingSession struct {
	driver.Session
	refuse func(queue string) error
}

// Leave implements driver.Session.
func (l leavingSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	for _, req := range reqs {
		if err := l.refuse(req.Ref.Queue); err != nil {
			return nil, err
		}
	}
	return l.Session.Leave(ctx, reqs...)
}

// leaver opens a session on a backend that calls refuse.
func (w *Fixture) leaver(label string, refuse func(queue string) error, change ...func(*session.Options)) *Client {
	w.t.Helper()
	return w.openOn(label, w.h.TTL, func(c drivertest.Client) driver.Backend {
		return leaving{c.Backend(), refuse}
	}, change...)
}

// refusedRemovals: a permission was revoked on some locks. More releases fail than the
// janitor has workers, and all others succeed as before.
func refusedRemovals(w *Fixture) {
	const stuck = "revoked/"
	var once atomic.Bool
	a := w.leaver("a", func(queue string) error {
		switch {
		case strings.HasPrefix(queue, stuck):
			return fmt.Errorf("%w: the permission was revoked", driver.ErrDenied)
		case queue == "pending" && once.CompareAndSwap(false, true):
			return fmt.Errorf("%w: the answer was lost", driver.ErrUnavailable)
		}
		return nil
	})
	b, c := w.Client("b"), w.Client("c")
	for i := range 40 {
		h, err := mutex.New(a.Session, fmt.Sprint(stuck, i)).Lock(w.soon())
		require.NoError(w.t, err)
		<-a.joined
		require.ErrorIs(w.t, h.Unlock(), session.ErrReleasePending)
	}

	h := b.hold()
	ctx, cancel := context.WithCancel(w.soon())
	a.queue(ctx)
	cancel()
	w.unlock(h)
	w.unlock(c.hold())
	w.eventually(0, "the entry of the waiter that gave up is removed")

	pending := a.holdOne("pending")
	next := b.queueFor(w.soon(), wantOne("pending"))
	require.ErrorIs(w.t, pending.Unlock(), session.ErrReleasePending)
	w.unlock(next.granted())
}

// closeFinishes: the first attempt at a release fails, and the session is closed
// before the second.
func closeFinishes(w *Fixture) {
	var once atomic.Bool
	a := w.leaver("a", func(string) error {
		if once.CompareAndSwap(false, true) {
			return fmt.Errorf("%w: the answer was lost", driver.ErrUnavailable)
		}
		return nil
	}, func(o *session.Options) { o.Margin = o.TTL / 3 }) // Close has that long
	h := a.robust()
	require.ErrorIs(w.t, h.Unlock(), session.ErrReleasePending)
	require.NoError(w.t, a.Close())
	next := w.Client("b").robust()
	assert.False(w.t, next.PreviousDied(), "the holder has released")
	w.unlock(next)
}
