package recipetest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// entering are the stories of callers who enter a hold while it is unlocked.
func entering() []story {
	reentrant := func(s *session.Session) *mutex.Mutex { return mutex.NewReentrant(s, name) }
	return []story{
		{"ReentrantLockRacingUnlockLeavesNothing", func(w *Fixture) {
			enterRacingUnlock(w, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
				return reentrant(s).Lock(ctx)
			})
		}},
		{"RLockInRLockRacingUnlockLeavesNothing", func(w *Fixture) {
			enterRacingUnlock(w, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
				return rwlock.New(s, name).RLock(ctx)
			})
		}},
	}
}

// enterRacingUnlock: goroutines that enter a hold while it is unlocked get one more
// handle on it, or none. When all have unlocked what they got, another session gets
// the lock.
func enterRacingUnlock(w *Fixture, lock locking) {
	const inside = 8
	rounds := 50
	if w.h.Virtual {
		rounds = 500
	}
	a, b := w.Client("a"), w.Client("b")
	for range rounds {
		h, err := lock(w.soon(), a.Session)
		require.NoError(w.t, err)
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range inside {
			all.Go(func() {
				<-begin
				if h2, err := lock(h.Context(), a.Session); err == nil {
					_ = h2.Unlock() // nil, or the release is pending
				}
			})
		}
		all.Go(func() {
			<-begin
			_ = h.Unlock()
		})
		close(begin)
		all.Wait()
		next, err := mutex.New(b.Session, name).Lock(w.soon())
		require.NoError(w.t, err, "every handle is unlocked")
		w.unlock(next)
	}
}
