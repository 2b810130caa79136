package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// TestCloseEndsASessionThatIsBeingOpened: the service has made the second service
// session, and the Session is closed before that is its current one.
func TestCloseEndsASessionThatIsBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		b := &slowAnswer{Backend: st.Backend(), made: make(chan string, 1), resume: make(chan struct{})}
		s, err := core.Open(t.Context(), b, nil)
		require.NoError(t, err)
		st.Expire("m1")
		time.Sleep(session.DefaultTTL) // the session learns of it
		go func() { _, _ = mutex.New(s, "n").Lock(t.Context()) }()
		require.Equal(t, "m2", <-b.made)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		close(b.resume)
		require.NoError(t, <-closed)

		assert.Empty(t, st.Sessions(), "Close has returned nil, so nothing is left")
	})
}

// slowAnswer is a backend that holds the answer to its second Open back until resume is
// closed.
type slowAnswer struct {
	driver.Backend

	opens  int
	made   chan string // the second service session
	resume chan struct{}
}

func (b *slowAnswer) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if b.opens++; b.opens == 2 && err == nil {
		b.made <- s.ID()
		<-b.resume
	}
	return s, err //nolint:wrapcheck // it is the backend's
}

// TestCloseDeletesTheEntriesOfRequestsAtOnce: a hold whose worker is slow to stop keeps the
// service session open, and other clients wait for the entries.
func TestCloseDeletesTheEntriesOfRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s := memtest.Open(t)
		other, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		ahead, err := mutex.New(other, "waits").Lock(t.Context())
		require.NoError(t, err)
		slow, err := mutex.New(s, "slow").Lock(t.Context())
		require.NoError(t, err)
		ended := make(chan error)
		lock := func(name string) {
			_, err := mutex.New(s, name).Lock(t.Context())
			ended <- err
		}
		go lock("waits")
		synctest.Wait()
		require.Len(t, memtest.Entries(st, "waits"), 2)
		c.DelayRequests(10 * time.Millisecond)
		go lock("joins")
		time.Sleep(5 * time.Millisecond)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		for range 2 {
			require.ErrorIs(t, <-ended, session.ErrClosed)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()

		assert.Len(t, memtest.Entries(st, "waits"), 1, "only the holder's")
		assert.Empty(t, memtest.Entries(st, "joins"), "the join was under way")
		require.Empty(t, closed)
		require.ErrorIs(t, slow.Unlock(), session.ErrLost)
		require.NoError(t, <-closed)
		require.NoError(t, ahead.Unlock())
		require.NoError(t, other.Close())
	})
}

// TestASessionThatWasNeverOpenedIsClosed: nil and the zero Session behave alike.
func TestASessionThatWasNeverOpenedIsClosed(t *testing.T) {
	for name, s := range map[string]*session.Session{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			for call, f := range map[string]func() error{
				"CheckName":  func() error { return core.Of(s).CheckName("n") },
				"Term":       func() error { _, err := core.Of(s).Live(ctx); return err },
				"Queue":      func() error { _, err := s.Queue(ctx, "n"); return err },
				"Read":       func() error { _, err := core.Of(s).Read(ctx, driver.ReadRequest{Queue: "n"}); return err },
				"Limit":      func() error { _, err := core.Of(s).Limit(ctx, "n"); return err },
				"Names":      func() error { _, err := s.Names(ctx, ""); return err },
				"Evict":      func() error { return s.Evict(ctx, session.Entry{}) },
				"Ask":        func() error { _, err := yield.Send(ctx, s, "n", ""); return err },
				"Asks":       func() error { _, err := yield.List(ctx, s, "n"); return err },
				"Lock":       func() error { _, err := mutex.New(s, "n").Lock(ctx); return err },
				"TryLock":    func() error { _, err := mutex.New(s, "n").TryLock(ctx); return err },
				"Acquire":    func() error { _, err := semaphore.New(s, "n", 3).Acquire(ctx, 1); return err },
				"TryAcquire": func() error { _, err := semaphore.New(s, "n", 3).TryAcquire(ctx, 1); return err },
				"Resize":     func() error { return semaphore.New(s, "n", 3).Resize(ctx, 3) },
				"LockAll": func() error {
					_, err := mutex.LockAll(ctx, mutex.New(s, "n"), mutex.New(s, "m"))
					return err
				},
			} {
				assert.NotPanics(t, func() { assert.ErrorIs(t, f(), session.ErrClosed, call) }, call)
			}
			assert.NotPanics(t, func() {
				assert.NoError(t, s.Close())
				assert.Zero(t, core.Of(s).Meta())
				assert.Zero(t, core.Of(s).Info().MaxJoin)
				assert.Zero(t, s.Options())
				assert.NotNil(t, core.Of(s).Clock())
				assert.False(t, inside(ctx, s, "n"))
			})
		})
	}
}

// TestARefusedRemovalIsRepeatedNowAndThen: an operator may act, so a removal that the
// service refuses is repeated, but at a slow pace.
func TestARefusedRemovalIsRepeatedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64 // one more when the Session is closed
		_, _, h := play(t, &scripted{leave: func(context.Context) error {
			attempts.Add(1)
			return driver.ErrDenied
		}})
		require.ErrorIs(t, h.Unlock(), session.ErrReleasePending)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Greater(t, attempts.Load(), int64(20), "it is not given up")
		assert.Less(t, attempts.Load(), int64(50), "nor repeated at full pace")
	})
}
