package recipetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// tries are the stories of tries on a service that does not answer.
func tries() []story {
	return []story{
		{"ATryIsBoundedWhileTheServiceIsAway", boundedTry},
	}
}

// boundedTry: every kind of try returns though its context has no end, and leaves
// nothing in the queue.
func boundedTry(w *Fixture) {
	p, q := w.Client("p"), w.Client("q")
	w.unlock(p.hold()) // the session is open, and the queue was used
	p.net.Cut(fault.Both)
	var all []*Request
	for _, try := range []func(context.Context, *session.Session) (*session.Hold, error){
		func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.New(s, name).TryLock(ctx)
		},
		func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.TryLockAll(ctx, locks(s, name, "y")...)
		},
		func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "rw").TryLock(ctx)
		},
		func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "rw").TryRLock(ctx)
		},
		func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return semaphore.New(s, "pool", 3).TryAcquire(ctx, 1)
		},
	} {
		all = append(all, p.askFor(w.t.Context(), try))
	}
	for _, r := range all {
		r.returned()
		require.ErrorIs(w.t, r.Err, session.ErrUnavailable)
		require.NotErrorIs(w.t, r.Err, session.ErrNotAcquired, "nobody knows whether it is free")
		assert.ErrorContains(w.t, r.Err, "no answer within 5s")
		assert.NotContains(w.t, r.Err.Error(), "\n")
	}
	p.net.Heal()
	w.unlock(q.hold())
	w.empty(name, "y", "rw", "pool")
}
