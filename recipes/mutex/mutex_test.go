package mutex_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
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

func TestDeletedOrRevokedHolderIsTold(t *testing.T) {
	for name, strike := range map[string]func(*membackend.Store, *session.Hold){
		"entry deleted": func(st *membackend.Store, h *session.Hold) { st.Delete(h.Refs()[0].Line, h.Refs()[0].Key) },
		"session ended": func(st *membackend.Store, _ *session.Hold) { st.Expire(st.Sessions()[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				h, err := mutex.New(open(t, st, nil), "n").Lock(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second)
				strike(st, h)
				at := time.Now()
				<-h.Context().Done()

				assert.Zero(t, time.Since(at), "told at once, not at the next renewal")
				require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
				require.ErrorIs(t, h.Unlock(), session.ErrLost)
			})
		})
	}
}

func TestUnlockTellsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		m := mutex.New(open(t, c, nil), "n")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		c.Cut(fault.Both)
		at := time.Now()
		err = h.Unlock()

		require.ErrorIs(t, err, session.ErrReleasePending)
		assert.LessOrEqual(t, time.Since(at), time.Second)
		require.ErrorIs(t, context.Cause(h.Context()), session.ErrReleased)
		synctest.Wait() // the background has sent its own
		sent := c.Sent(fault.Leave)
		require.ErrorIs(t, h.Unlock(), session.ErrUnlocked)
		assert.Equal(t, sent, c.Sent(fault.Leave), "nothing is sent for a second Unlock")
		c.Heal()
		time.Sleep(3 * time.Second)
		assert.Empty(t, st.Entries("n"))
	})
}

func TestReentrancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		m := mutex.New(s, "n")
		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, session.ErrReentrant)
			_, err = m.TryLock(h.Context())
			require.ErrorIs(t, err, session.ErrReentrant)

			return mutex.New(s, "other").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
				_, err := m.Lock(ctx) // through another hold's context
				require.ErrorIs(t, err, session.ErrReentrant)
				line, err := s.Queue(ctx, "other")
				require.NoError(t, err)
				assert.Equal(t, []string{"n"}, line[0].Meta.Holds)
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

		r := mutex.NewReentrant(s, "n")
		h1, err := r.Lock(t.Context())
		require.NoError(t, err)
		h2, err := r.Lock(h1.Context())
		require.NoError(t, err)
		assert.Equal(t, h1.Token(), h2.Token())
		require.NoError(t, h1.Unlock())
		require.NoError(t, h2.Context().Err())
		require.Len(t, st.Entries("n"), 1, "given back at the last Unlock")
		require.NoError(t, h2.Unlock())
		assert.Empty(t, st.Entries("n"))
		h3, err := r.Lock(context.WithoutCancel(h2.Context())) // an unlocked hold does not count
		require.NoError(t, err)
		assert.NotEqual(t, h1.Token(), h3.Token())
		require.NoError(t, h3.Unlock())
	})
}

func TestDoGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.New(open(t, st, nil), "n")
		boom := errors.New("boom")
		require.ErrorIs(t, m.Do(t.Context(), func(context.Context, *session.Hold) error { return boom }), boom)
		assert.Empty(t, st.Entries("n"))
		assert.PanicsWithValue(t, "boom", func() {
			_ = m.Do(t.Context(), func(context.Context, *session.Hold) error { panic("boom") })
		})
		assert.Empty(t, st.Entries("n"))

		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			st.Delete("n", h.Refs()[0].Key)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost, "a nil of fn does not hide a loss")

		ctx, cancel := context.WithCancel(t.Context())
		err = m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			cancel()
			<-ctx.Done()
			assert.Len(t, st.Entries("n"), 1, "the end of ctx alone does not give back")
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, session.ErrLost)
		assert.Empty(t, st.Entries("n"))
	})
}

func TestBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		for _, name := range []string{"", string(make([]byte, 513)), "a\xff", "a\x00b"} {
			_, err := mutex.New(s, name).Lock(t.Context())
			require.ErrorIs(t, err, session.ErrInvalidName)
			_, err = mutex.New(s, name).Queue(t.Context())
			require.ErrorIs(t, err, session.ErrInvalidName)
		}
		assert.Zero(t, c.Sent(fault.Join))
		_, err = mutex.New(nil, "n").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrClosed)

		st.PutForeign("n", "left-behind", false)
		_, err = mutex.New(s, "n").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrForeignKey)
		require.ErrorContains(t, err, "left-behind")
		synctest.Wait()
		require.Len(t, st.Entries("n"), 1)

		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		_, err = mutex.New(s, "m").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrClosed)

		for _, o := range []session.Options{
			{TTL: time.Millisecond},
			{TTL: 10 * time.Second, Margin: 10 * time.Second},
			{TTL: 10 * time.Second, Margin: 9 * time.Second},
			{Margin: -1},
			{Label: string(make([]byte, 129))},
		} {
			_, err := st.Open(t.Context(), &o)
			require.ErrorIs(t, err, session.ErrInvalidOptions)
		}
	})
}

func TestHandOffNeedsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		first, err := mutex.New(open(t, st, nil), "n").Lock(t.Context())
		require.NoError(t, err)
		const n = 5
		var clients [n]*membackend.Client
		var holds [n]chan *session.Hold
		for i := range n {
			clients[i], holds[i] = st.NewClient(), make(chan *session.Hold, 1)
			s := open(t, clients[i], nil)
			go func() {
				h, err := mutex.New(s, "n").Lock(t.Context())
				assert.NoError(t, err)
				holds[i] <- h
			}()
			synctest.Wait()
		}
		h := first
		for i := range n {
			time.Sleep(time.Second)
			looks := clients[i].Sent(fault.Look)
			require.NoError(t, h.Unlock())
			h = <-holds[i]

			assert.Equal(t, looks, clients[i].Sent(fault.Look), "waiter %d", i)
		}
		require.NoError(t, h.Unlock())
	})
}

func TestChainOfOneSessionNeedsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		m := mutex.New(open(t, c, nil), "n")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		const n = 100
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				h, err := m.Lock(t.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, h.Unlock())
				}
			})
		}
		synctest.Wait()
		looks := c.Sent(fault.Look)
		require.NoError(t, h.Unlock())
		wg.Wait()

		assert.Equal(t, looks, c.Sent(fault.Look))
		assert.Equal(t, n+1, c.Sent(fault.Leave))
	})
}

func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.New(open(t, st, nil), "n")
		l := m.Locker(t.Context())
		assert.Panics(t, l.Unlock)
		l.Lock()
		assert.NotZero(t, l.Hold().Token())
		l.Unlock()
		assert.Nil(t, l.Hold())
		assert.Empty(t, st.Entries("n"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Panics(t, m.Locker(ctx).Lock)
	})
}

// A program that was started under locks says so in its entries, with those that
// it takes itself.
func TestAnEntrySaysWhatItsOwnerWorksUnder(t *testing.T) {
	store := membackend.New()
	s, err := store.Open(t.Context(), &session.Options{Holds: []string{"parent's"}})
	require.NoError(t, err)
	defer s.Close()
	outer, err := mutex.New(s, "outer").Lock(t.Context())
	require.NoError(t, err)
	_, err = mutex.New(s, "inner").Lock(outer.Context())
	require.NoError(t, err)

	line, err := mutex.New(s, "inner").Queue(t.Context())

	require.NoError(t, err)
	assert.Equal(t, []string{"parent's", "outer"}, line[0].Meta.Holds)
}
