package recipetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// Patience is the timeout after which a test that waits for an event counts as
	// hanging. No claim about time rests on it: on a busy machine, what takes
	// milliseconds can take many seconds.
	Patience = hang.Guard

	// CalmTTL is the TTL of sessions that must not expire in a case, even on a busy
	// machine.
	CalmTTL = 20 * time.Second

	// EventTTL is the TTL of sessions whose waiters must be notified by an event: their
	// engine reads without one only after more than [Patience].
	EventTTL = 2 * Patience
)

// Now returns the time of the clock that all processes of this machine share.
func Now() driver.Instant { return driver.SystemClock().Now() }

// Bounded returns a context that ends after [Patience].
func Bounded(t testing.TB) context.Context {
	t.Helper()
	return hang.Context(t)
}

func bounded(t testing.TB, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// Wait returns what ch delivers, or the zero value when ch is closed. It fails the
// test after [Patience].
func Wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	return hang.Receive(t, ch, "%s", what)
}

func within[T any](t testing.TB, timeout time.Duration, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(timeout):
		require.Fail(t, "timeout", what)
		panic("unreachable")
	}
}

// Until polls a condition that causes no event, like the counters of proxies and
// servers. It fails the test after [Patience].
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	hang.Until(t, cond, "%s", what)
}

func poll(t testing.TB, timeout, pause time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !cond(); {
		if !time.Now().Before(end) {
			require.Fail(t, "timeout", what)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			return
		}
	}
}

// Unlock releases a hold. The release may be pending, see [Released].
func Unlock(t testing.TB, h *session.Hold) {
	t.Helper()
	Released(t, h.Unlock(), "unlock")
}

// Released reports whether a call has succeeded that releases, like Unlock or Do, and fails the
// test otherwise. The release may be pending: a busy machine can stand still until the answer
// is late.
func Released(t testing.TB, err error, what ...any) bool {
	t.Helper()
	return late(err) || assert.NoError(t, err, what...)
}

// late reports whether a release is pending for no other reason than that its answer is late.
func late(err error) bool {
	return errors.Is(err, session.ErrReleasePending) && !driver.Incurable(err)
}

// UnlockInTrouble is [Unlock] while the service has faults: the release may be
// pending for any reason.
func UnlockInTrouble(t testing.TB, h *session.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		assert.ErrorIs(t, err, session.ErrReleasePending)
	}
}

// Each calls f with each number below n, up to 64 calls at a time.
func Each(n int, f func(i int)) {
	const atOnce = 64
	var wg sync.WaitGroup
	for w := range min(n, atOnce) {
		wg.Go(func() {
			for i := w; i < n; i += atOnce {
				f(i)
			}
		})
	}
	wg.Wait()
}
