package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hooktest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// hooked is a Session on a service with another client, and what its hooks report.
type hooked struct {
	*session.Session
	t      *testing.T
	st     *membackend.Store
	net    *membackend.Client
	other  *session.Session
	checks hooktest.Requests

	mu     sync.Mutex
	calls  []string
	events []session.Event
}

type valueKey struct{}

func openHooked(t *testing.T) *hooked {
	st := membackend.New()
	x := &hooked{t: t, st: st, net: st.NewClient()}
	note := func(hook string) func(context.Context, session.Event) {
		return func(ctx context.Context, e session.Event) {
			assert.Equal(t, e.Name, ctx.Value(valueKey{}), "the context has the values of what Started returned")
			x.note(hook, e)
		}
	}
	h := session.Hooks{
		Started: func(ctx context.Context, e session.Event) context.Context {
			x.note("Started", e)
			return context.WithValue(ctx, valueKey{}, e.Name)
		},
		Joined: note("Joined"), Position: note("Position"), Rejoined: note("Rejoined"), Ended: note("Ended"),
		Released: note("Released"), Lost: note("Lost"),
	}
	x.checks.Watch(&h)
	var err error
	x.Session, err = x.net.Open(t.Context(), &session.Options{Hooks: h})
	require.NoError(t, err)
	x.other, err = st.NewClient().Open(t.Context(), nil)
	require.NoError(t, err)
	return x
}

func (x *hooked) note(hook string, e session.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.Outcome != "" && hook == "Ended" {
		hook = string(e.Outcome)
	}
	x.calls, x.events = append(x.calls, hook), append(x.events, e)
}

// last returns the newest event of a hook.
func (x *hooked) last() session.Event {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.events[len(x.events)-1]
}

func (x *hooked) lock() *session.Hold {
	h, err := mutex.New(x.Session, "n").Lock(x.t.Context())
	require.NoError(x.t, err)
	return h
}

// blocked returns a request that waits behind the other client, and what that holds.
func (x *hooked) blocked(ctx context.Context) (failed <-chan error, ahead *session.Hold) {
	ahead, err := mutex.New(x.other, "n").Lock(x.t.Context())
	require.NoError(x.t, err)
	done := make(chan error, 1)
	go func() {
		h, err := mutex.New(x.Session, "n").Lock(ctx)
		if err == nil {
			err = h.Unlock()
		}
		done <- err
	}()
	synctest.Wait()
	return done, ahead
}

// TestEveryRequestHasOneOutcomeAndEveryHoldOneEnd is the table of the document of
// session.Hooks.
func TestEveryRequestHasOneOutcomeAndEveryHoldOneEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		do   func(x *hooked)
	}{
		{"released", "[Started Joined granted Released]", func(x *hooked) {
			require.NoError(x.t, x.lock().Unlock())
		}},
		{"taken", "[Started taken]", func(x *hooked) {
			_, err := mutex.New(x.other, "n").Lock(x.t.Context())
			require.NoError(x.t, err)
			_, err = mutex.New(x.Session, "n").TryLock(x.t.Context())
			require.ErrorIs(x.t, err, session.ErrNotAcquired)
		}},
		{"cancelled", "[Started Joined gave up]", func(x *hooked) {
			ctx, cancel := context.WithCancel(x.t.Context())
			failed, _ := x.blocked(ctx)
			cancel()
			require.ErrorIs(x.t, <-failed, context.Canceled)
		}},
		{"over before it began", "[Started gave up]", func(x *hooked) {
			ctx, cancel := context.WithCancel(x.t.Context())
			cancel()
			_, err := mutex.New(x.Session, "n").Lock(ctx)
			require.ErrorIs(x.t, err, context.Canceled)
		}},
		{"no answer to a try", "[Started gave up]", func(x *hooked) {
			x.net.Cut(fault.Both)
			_, err := mutex.New(x.Session, "n").TryLock(x.t.Context())
			require.ErrorIs(x.t, err, session.ErrUnavailable)
			x.net.Heal()
		}},
		{"invalid name", "[Started refused]", func(x *hooked) {
			_, err := mutex.New(x.Session, "a\x00").Lock(x.t.Context())
			require.ErrorIs(x.t, err, session.ErrInvalidName)
		}},
		{"invalid option", "[Started refused]", func(x *hooked) {
			_, err := mutex.NewWith(x.Session, "n", mutex.Options{MinHold: -1}).Lock(x.t.Context())
			require.ErrorIs(x.t, err, session.ErrInvalidOptions)
		}},
		{"too many permits", "[Started refused]", func(x *hooked) {
			_, err := semaphore.New(x.Session, "n", 2).Acquire(x.t.Context(), 3)
			require.ErrorIs(x.t, err, session.ErrWeight)
		}},
		{"inside", "[Started Joined granted Started refused Released]", func(x *hooked) {
			h := x.lock()
			synctest.Wait() // Started is not in the order of the others
			_, err := mutex.New(x.Session, "n").Lock(h.Context())
			require.ErrorIs(x.t, err, session.ErrReentrant)
			require.NoError(x.t, h.Unlock())
		}},
		{"reentrant", "[Started Joined granted Released]", func(x *hooked) {
			m := mutex.NewWith(x.Session, "n", mutex.Options{Reentrant: true})
			h, err := m.Lock(x.t.Context())
			require.NoError(x.t, err)
			inner, err := m.Lock(h.Context())
			require.NoError(x.t, err)
			require.NoError(x.t, h.Unlock())
			require.NoError(x.t, inner.Unlock())
		}},
		{"downgraded", "[Started Joined granted Released]", func(x *hooked) {
			l := rwlock.New(x.Session, "n")
			h, err := l.Lock(x.t.Context())
			require.NoError(x.t, err)
			require.NoError(x.t, l.Downgrade(x.t.Context(), h))
			require.NoError(x.t, h.Unlock())
		}},
		{"several", "[Started Joined granted Released]", func(x *hooked) {
			h, err := mutex.LockAll(x.t.Context(), mutex.New(x.Session, "a"), mutex.New(x.Session, "b"))
			require.NoError(x.t, err)
			require.NoError(x.t, h.Unlock())
			assert.Equal(x.t, []string{"a", "b"}, x.last().Names)
		}},
		{"of several Sessions", "[]", func(x *hooked) {
			_, err := mutex.LockAll(x.t.Context(), mutex.New(x.Session, "a"), mutex.New(x.other, "b"))
			require.ErrorIs(x.t, err, session.ErrInvalidOptions)
		}},
		{"released, in the background", "[Started Joined granted Released]", func(x *hooked) {
			h := x.lock()
			x.net.Cut(fault.Replies)
			require.ErrorIs(x.t, h.Unlock(), session.ErrReleasePending)
			require.ErrorIs(x.t, x.last().Err, session.ErrReleasePending)
			x.net.Heal()
		}},
		{"released early", "[Started Joined granted Released]", func(x *hooked) {
			h, err := mutex.NewWith(x.Session, "n", mutex.Options{MinHold: time.Minute}).Lock(x.t.Context())
			require.NoError(x.t, err)
			require.NoError(x.t, h.Unlock())
		}},
		{"lost place", "[Started Joined Rejoined Joined granted Released]", func(x *hooked) {
			done, ahead := x.blocked(x.t.Context())
			x.st.Expire("m1")
			time.Sleep(session.DefaultTTL)
			require.NoError(x.t, ahead.Unlock())
			require.NoError(x.t, <-done)
		}},
		{"lost", "[Started Joined granted Lost]", func(x *hooked) {
			h := x.lock()
			x.st.Expire("m1")
			<-h.Context().Done()
			require.ErrorIs(x.t, h.Unlock(), session.ErrLost)
			require.ErrorIs(x.t, h.Unlock(), session.ErrUnlocked)
		}},
		{"lost, as Unlock finds", "[Started Joined granted Lost]", func(x *hooked) {
			h := x.lock()
			x.st.Expire("m1")
			require.ErrorIs(x.t, h.Unlock(), session.ErrLost)
		}},
		{"closed while it is held", "[Started Joined granted Lost]", func(x *hooked) {
			h := x.lock()
			require.NoError(x.t, x.Close())
			require.ErrorIs(x.t, x.last().Err, session.ReasonClosed)
			require.ErrorIs(x.t, h.Unlock(), session.ErrLost)
		}},
		{"closed while it waits", "[Started Joined refused]", func(x *hooked) {
			failed, _ := x.blocked(x.t.Context())
			require.NoError(x.t, x.Close())
			require.ErrorIs(x.t, <-failed, session.ErrClosed)
		}},
		{"closed before", "[Started refused]", func(x *hooked) {
			require.NoError(x.t, x.Close())
			_, err := mutex.New(x.Session, "n").Lock(x.t.Context())
			require.ErrorIs(x.t, err, session.ErrClosed)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := openHooked(t)
				c.do(x)
				synctest.Wait()
				waiting, holding := x.checks.Open()
				assert.Zero(t, waiting, "the gauge of the waiters")
				assert.Zero(t, holding, "the gauge of the holds")
				assert.Empty(t, x.checks.Wrong())
				assert.Equal(t, c.want, fmt.Sprint(x.calls))
				require.NoError(t, x.Close())
				require.NoError(t, x.other.Close())
			})
		})
	}
}

// TestRequestsThatEndAfterCloseAreReported: their callers return a moment later than
// Close, and a gauge of waiters must still come back to zero.
func TestRequestsThatEndAfterCloseAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openHooked(t)
		goOn := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			_, err := mutex.New(x.Session, "n").Lock(slow{x.t.Context(), goOn})
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, x.Close())
		waiting, _ := x.checks.Open()
		require.Equal(t, 1, waiting)
		close(goOn)
		require.ErrorIs(t, <-failed, session.ErrClosed)

		waiting, _ = x.checks.Open()
		assert.Zero(t, waiting, "when Lock has returned")
		require.NoError(t, x.other.Close())
	})
}

// slow is a context whose Err takes its time.
type slow struct {
	context.Context
	goOn chan struct{}
}

func (s slow) Err() error {
	<-s.goOn
	return s.Context.Err()
}

// broken is a context whose Err panics.
type broken struct{ context.Context }

func (broken) Err() error { panic("broken") }

// TestARequestThatPanicsHasEnded: a context of the caller's own may panic.
func TestARequestThatPanicsHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openHooked(t)
		require.Panics(t, func() { _, _ = mutex.New(x.Session, "n").Lock(broken{t.Context()}) })
		require.NoError(t, x.Close())
		assert.Equal(t, "[Started refused]", fmt.Sprint(x.calls))
		require.NoError(t, x.other.Close())
	})
}

// TestEverySessionThatIsOpenedEndsOnce: by a loss, or by Close.
func TestEverySessionThatIsOpenedEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		note := func(hook string) func(session.Event) {
			return func(e session.Event) { calls = append(calls, hook+" "+e.Session) }
		}
		st := membackend.New()
		s, err := st.Open(t.Context(), &session.Options{Hooks: session.Hooks{
			SessionOpened: note("opened"), SessionLost: note("lost"), SessionClosed: note("closed"),
		}})
		require.NoError(t, err)
		st.Expire("m1")
		time.Sleep(session.DefaultTTL)
		_, err = mutex.New(s, "n").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Close())

		assert.Equal(t, []string{"opened m1", "lost m1", "opened m2", "closed m2"}, calls)
	})
}
