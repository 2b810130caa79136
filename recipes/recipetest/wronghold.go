package recipetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// wrongHolds are the stories of holds that are given to a recipe that they are not
// of.
func wrongHolds() []story {
	return []story{{"DowngradeAndProclaimRefuseAHoldThatIsNotTheirs", wrongHold}}
}

// wrongHold: the recipe sends nothing, and the hold excludes others as before.
func wrongHold(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	refuses := func(h *session.Hold, why string) {
		w.t.Helper()
		a.sends(0, why, func() {
			require.ErrorIs(w.t, rwlock.New(a.Session, name).Downgrade(w.soon(), h), session.ErrNotWriter, why)
			require.ErrorIs(w.t, election.New(a.Session, name).Proclaim(w.soon(), h, "x"), session.ErrNotLeader, why)
		})
	}
	refuses(nil, "no hold")
	refuses(&session.Hold{}, "a hold that no recipe has made")
	for why, want := range map[string]locking{
		"a mutex's": lock,
		"a semaphore's": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return semaphore.New(s, name, 1).Acquire(ctx, 1)
		},
		"of several": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(s, name), mutex.New(s, "other"))
		},
		"another election's": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return election.New(s, "other").Campaign(ctx, "")
		},
		"another lock's": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "other").Lock(ctx)
		},
	} {
		h, err := want(w.soon(), a.Session)
		require.NoError(w.t, err, why)
		refuses(h, why)
		require.NoError(w.t, h.Context().Err(), why)
		if h.Name() == name {
			_, err = rwlock.New(b.Session, name).TryRLock(w.soon())
			require.ErrorIs(w.t, err, session.ErrNotAcquired, why)
		}
		w.unlock(h)
	}
	foreign, err := rwlock.New(b.Session, name).Lock(w.soon())
	require.NoError(w.t, err)
	refuses(foreign, "another session's")
	w.unlock(foreign)
}
