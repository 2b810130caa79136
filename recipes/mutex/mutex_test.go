package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a session that is closed at the end of the test.
func open(t *testing.T, c interface {
	Open(ctx context.Context, o *session.Options) (*session.Session, error)
}, o *session.Options,
) *session.Session {
	t.Helper()
	s, err := c.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestReentrancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, &session.Options{Holds: []string{"parent's"}})
		m := mutex.New(s, "n")
		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, session.ErrReentrant)
			_, err = m.TryLock(h.Context())
			require.ErrorIs(t, err, session.ErrReentrant)

			return mutex.New(s, "other").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
				_, err := m.Lock(ctx) // through another hold's context
				require.ErrorIs(t, err, session.ErrReentrant)
				entries, err := s.Queue(ctx, "other")
				require.NoError(t, err)
				detail := session.Engine(door.Key{}).Detail(entries[0])
				assert.Equal(t, []string{"parent's", "n"}, owner.MetaOf(&detail).Holds)
				return nil
			})
		})
		require.NoError(t, err)

		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
		h, err = m.Lock(context.WithoutCancel(h.Context())) // inside nothing any more
		require.NoError(t, err)
		require.NoError(t, h.Unlock())

		r := mutex.NewWith(s, "n", mutex.Options{Reentrant: true})
		h1, err := r.Lock(t.Context())
		require.NoError(t, err)
		h2, err := r.Lock(h1.Context())
		require.NoError(t, err)
		assert.Equal(t, h1.Token(), h2.Token())
		require.NoError(t, h1.Unlock())
		require.NoError(t, h2.Context().Err())
		require.Len(t, memtest.Entries(st, "n"), 1, "released at the last Unlock")
		require.NoError(t, h2.Unlock())
		assert.Empty(t, memtest.Entries(st, "n"))
		h3, err := r.Lock(context.WithoutCancel(h2.Context())) // an unlocked hold does not count
		require.NoError(t, err)
		assert.NotEqual(t, h1.Token(), h3.Token())
		require.NoError(t, h3.Unlock())
	})
}

// A reentrant lock must not enter another recipe's hold of its name: that of a reader or
// of a few permits does not exclude other holds.
func TestReentrantIsOnlyInsideItsOwnKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		for kind, acquire := range map[string]func() (*session.Hold, error){
			"reader":  func() (*session.Hold, error) { return rwlock.New(s, "n").RLock(t.Context()) },
			"permits": func() (*session.Hold, error) { return semaphore.New(s, "n", 2).Acquire(t.Context(), 1) },
			"leader":  func() (*session.Hold, error) { return election.New(s, "n").Campaign(t.Context(), "v") },
		} {
			h, err := acquire()
			require.NoError(t, err)
			_, err = mutex.NewWith(s, "n", mutex.Options{Reentrant: true}).Lock(h.Context())
			require.ErrorIs(t, err, session.ErrReentrant, kind)
			require.NoError(t, h.Unlock())
		}
	})
}

func TestDoReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.New(open(t, st, nil), "n")
		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			st.Delete("n", memtest.Entries(st, "n")[0].Key)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost, "a nil of fn does not hide a loss")

		ctx, cancel := context.WithCancel(t.Context())
		err = m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			cancel()
			<-ctx.Done()
			assert.Len(t, memtest.Entries(st, "n"), 1, "the end of ctx alone does not release")
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, session.ErrLost)
		assert.Empty(t, memtest.Entries(st, "n"))
	})
}
