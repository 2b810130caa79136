package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// borders are the cases of the errors that leave the library: each public call, with a service session or a context
// that ends at any of its requests.
func borders() []testCase {
	var all []testCase
	for _, c := range borderCalls() {
		all = append(all,
			testCase{c.name + "ReturnsPublicErrorsWhenItsSessionEndsAtAnyRequest", func(w *Fixture) { borderOfSession(w, c) }},
			testCase{c.name + "ReturnsPublicErrorsWhenItsContextEndsAtAnyRequest", func(w *Fixture) { borderOfContext(w, c) }},
		)
	}
	return append(all,
		testCase{"OpenOpensAnotherSessionWhenOneEndsMeanwhile", openEndedOnce},
		testCase{"OpenReturnsAPublicErrorWhenEachSessionEndsMeanwhile", openEndedAlways},
	)
}

// public are the errors that callers can branch on. All others have no meaning to them.
func public() []error {
	return []error{
		session.ErrNotAcquired, session.ErrLost, session.ErrReleasePending, session.ErrUnlocked, session.ErrReentrant, session.ErrNotWriter,
		session.ErrNotLeader, session.ErrNoLeader, session.ErrWeight, session.ErrLimitMismatch, session.ErrInvalidName,
		yield.ErrInvalidReason, session.ErrInvalidOptions, session.ErrClosed, session.ErrForeignKey, session.ErrGone,
		session.ErrDenied, session.ErrRefused, session.ErrUnavailable, context.Canceled, context.DeadlineExceeded,
	}
}

// borderCall is a public call that takes a context or releases something.
type borderCall struct {
	name string

	// ready brings the service into the state in which the call is made, and returns the call. a is the client
	// that makes it, and b another one, whose session does not end.
	ready ready

	// may are the errors that the call may return while the service answers. Another session can do the rest of
	// all other calls.
	may []error
}

// borderOfSession ends the session of the client at the first request, then at the second, until the call makes fewer.
func borderOfSession(w *Fixture, c borderCall) {
	border(w, c, func(ctx context.Context, id string) (context.Context, func()) {
		return ctx, func() { w.svc.Expire(w.t, id) }
	}, func(err error) {
		assert.True(w.t, err == nil || isAny(err, c.may), "another session can do it: %v", err)
	})
}

// borderOfContext is the same with the context of the call.
func borderOfContext(w *Fixture, c borderCall) {
	border(w, c, func(ctx context.Context, _ string) (context.Context, func()) { return context.WithCancel(ctx) }, func(error) {})
}

// border makes the call again and again, and calls end at the first request, then at the second, until the call
// makes fewer.
func border(w *Fixture, c borderCall, prepare func(ctx context.Context, id string) (context.Context, func()), check func(error)) {
	a, b := w.Client("a"), w.Client("b")
	var requests atomic.Int64
	requests.Store(1)
	for n := int64(1); requests.Load() >= n; n++ {
		id := a.awake()
		call := c.ready(w, a, b)
		ctx, end := prepare(w.soon(), id)
		requests.Store(0)
		a.net.OnRequest(func() {
			if requests.Add(1) == n {
				end()
			}
		})
		err := call(ctx)
		a.net.OnRequest(nil)
		w.t.Logf("%s, whose request %d of %d met the end: %v", c.name, n, requests.Load(), err)
		assert.True(w.t, err == nil || isAny(err, public()), "an error of the inner contract: %v", err)
		check(err)
		if w.t.Failed() {
			return
		}
	}
	a.awake()
}

// awake returns the service session of a client that has a live one.
func (c *Client) awake() string {
	c.w.t.Helper()
	for {
		h, err := mutex.New(c.Session, name).Lock(c.w.soon())
		require.NoError(c.w.t, err)
		if h.Unlock() == nil {
			return h.SessionID()
		}
	}
}

// endedEarly is a backend whose first sessions end before Open has returned.
type endedEarly struct {
	driver.Backend
	left *int   // how many sessions
	last func() // is called before the last of them is reported; nil: nothing is
}

func (b endedEarly) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	*b.left--
	if *b.left < 0 || err != nil {
		return s, err //nolint:wrapcheck // the backend's own error
	}
	_ = s.Close(ctx)
	if *b.left == 0 && b.last != nil {
		b.last()
	}
	return nil, fmt.Errorf("read from it: %w", driver.ErrSessionOver)
}

func openEndedOnce(w *Fixture) {
	left := 2
	p := w.openOn("p", w.h.TTL, func(c drivertest.Client) driver.Backend { return endedEarly{c.Backend(), &left, nil} })
	w.unlock(p.hold())
	assert.Negative(w.t, left)
}

func openEndedAlways(w *Fixture) {
	left := 3
	ctx, stop := context.WithCancel(w.soon())
	defer stop()
	_, err := core().Open(ctx, endedEarly{w.svc.Client(w.t).Backend(), &left, stop}, &session.Options{TTL: w.short})
	require.ErrorIs(w.t, err, session.ErrUnavailable)
	require.NotErrorIs(w.t, err, driver.ErrSessionOver)
	assert.ErrorContains(w.t, err, "read from it", "the reason")
	assert.Zero(w.t, left, "it opens another one while it may")
}

// isAny reports whether an error is one of all.
func isAny(err error, all []error) bool {
	for _, e := range all {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ready is borderCall.ready.
type ready = func(w *Fixture, a, b *Client) func(ctx context.Context) error

// alone is for a call that needs nothing to be ready.
func alone(call func(ctx context.Context, a *Client) error) ready {
	return func(_ *Fixture, a, _ *Client) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, a) }
	}
}

// acquires is for a call that acquires something, which is released.
func acquires(want locking) ready {
	return alone(func(ctx context.Context, a *Client) error {
		h, err := want(ctx, a.Session)
		if err == nil {
			_ = h.Unlock()
		}
		return err
	})
}

func borderCalls() []borderCall {
	return slices.Concat(acquireCalls(), workCalls(), holdCalls(), readCalls(), operatorCalls(), askCalls())
}

// acquireCalls are calls that return a hold.
func acquireCalls() []borderCall {
	return []borderCall{
		{"Lock", acquires(lock), nil},
		{"TryLock", acquires(func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.New(s, name).TryLock(ctx)
		}), nil},
		{"LockAll", acquires(wantAll(name, name+"/2")), nil},
		{"RLock", acquires(func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, name).RLock(ctx)
		}), nil},
		{"Acquire", acquires(func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return semaphore.NewWith(s, name+"/s", 3, semaphore.Options{Slots: true}).Acquire(ctx, 1)
		}), nil},
		{"TryAcquire", acquires(func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return semaphore.New(s, name+"/s", 3).TryAcquire(ctx, 1)
		}), nil},
		{"Campaign", acquires(func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return election.New(s, name).Campaign(ctx, "a")
		}), nil},
	}
}

// workCalls are calls that call a function of the caller.
func workCalls() []borderCall {
	work := func(context.Context, *session.Hold) error { return nil }
	return []borderCall{
		{"Do", alone(func(ctx context.Context, a *Client) error { return mutex.New(a.Session, name).Do(ctx, work) }), []error{session.ErrLost}},
		{"Once", func(_ *Fixture, a, _ *Client) func(context.Context) error {
			key := fmt.Sprint(len(a.Lost()))
			return func(ctx context.Context) error { return mutex.New(a.Session, name).Once(ctx, key, work) }
		}, []error{session.ErrLost}},
		{"OnceThatIsDone", func(w *Fixture, a, b *Client) func(context.Context) error {
			require.NoError(w.t, mutex.New(b.Session, name).Once(w.soon(), "done", work))
			return func(ctx context.Context) error { return mutex.New(a.Session, name).Once(ctx, "done", work) }
		}, []error{session.ErrLost}},
	}
}

// holdCalls are calls about a hold.
func holdCalls() []borderCall {
	return []borderCall{
		{"Unlock", func(_ *Fixture, a, _ *Client) func(context.Context) error {
			h := a.hold()
			return func(context.Context) error { return h.Unlock() }
		}, []error{session.ErrLost, session.ErrReleasePending}},
		{"Downgrade", func(w *Fixture, a, _ *Client) func(context.Context) error {
			h, err := rwlock.New(a.Session, name).Lock(w.soon())
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				return rwlock.New(a.Session, name).Downgrade(ctx, h)
			}
		}, []error{session.ErrLost}},
		{"Proclaim", func(w *Fixture, a, _ *Client) func(context.Context) error {
			e := election.New(a.Session, name)
			h, err := e.Campaign(w.soon(), "a")
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				return e.Proclaim(ctx, h, "b")
			}
		}, []error{session.ErrLost}},
		{"Asked", func(w *Fixture, a, b *Client) func(context.Context) error {
			h := a.hold()
			withdraw, err := yield.Send(w.soon(), b.Session, name, "please")
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				defer func() { _ = withdraw() }()
				_, err := yield.Next(ctx, h)
				return err
			}
		}, []error{session.ErrLost}},
	}
}

// readCalls are calls that change nothing.
func readCalls() []borderCall {
	return []borderCall{
		{"Leader", func(w *Fixture, a, b *Client) func(context.Context) error {
			h, err := election.New(b.Session, name+"/e").Campaign(w.soon(), "b")
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				_, err := election.New(a.Session, name+"/e").Leader(ctx)
				return err
			}
		}, nil},
		{"Observe", func(w *Fixture, a, b *Client) func(context.Context) error {
			h, err := election.New(b.Session, name+"/e").Campaign(w.soon(), "b")
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				for _, err := range election.New(a.Session, name+"/e").Observe(ctx) {
					return err
				}
				return nil
			}
		}, nil},
		{"Limit", alone(func(ctx context.Context, a *Client) error {
			_, err := semaphore.New(a.Session, name+"/s", 3).Limit(ctx)
			return err
		}), nil},
		{"Queue", alone(func(ctx context.Context, a *Client) error {
			_, err := a.Session.Queue(ctx, name)
			return err
		}), nil},
		{"Names", alone(func(ctx context.Context, a *Client) error {
			_, err := a.Session.Names(ctx, "")
			return err
		}), nil},
	}
}

// operatorCalls are calls of operators.
func operatorCalls() []borderCall {
	return []borderCall{
		{"Resize", alone(func(ctx context.Context, a *Client) error {
			return semaphore.New(a.Session, name+"/s", 3).Resize(ctx, 3)
		}), nil},
		{"Evict", func(w *Fixture, a, b *Client) func(context.Context) error {
			h := b.hold()
			queue, err := b.Session.Queue(w.soon(), name)
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = h.Unlock() }()
				return a.Session.Evict(ctx, queue[0])
			}
		}, nil},
	}
}

// askCalls are calls about yield requests.
func askCalls() []borderCall {
	return []borderCall{
		{"Ask", alone(func(ctx context.Context, a *Client) error {
			withdraw, err := yield.Send(ctx, a.Session, name, "please")
			if err != nil {
				return err
			}
			return withdraw()
		}), []error{session.ErrReleasePending}},
		{"Asks", func(w *Fixture, a, b *Client) func(context.Context) error {
			withdraw, err := yield.Send(w.soon(), b.Session, name, "please")
			require.NoError(w.t, err)
			return func(ctx context.Context) error {
				defer func() { _ = withdraw() }()
				_, err := yield.List(ctx, a.Session, name)
				return err
			}
		}, nil},
	}
}
