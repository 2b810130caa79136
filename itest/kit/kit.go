// Package kit is what the tests of both services tell their stories with: a
// Session that notes what its hooks and its log say, requests under way, and
// waiting that has an end.
package kit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// Patience bounds what should take milliseconds on a machine that is busy.
	Patience = 20 * time.Second

	// CalmTTL is for sessions whose expiry is not what the story is about: a busy
	// machine must not cost them their entries.
	CalmTTL = 20 * time.Second

	// Relooks is when the engine's look without an event comes at the earliest with
	// CalmTTL, so that a grant that comes sooner was not its doing.
	Relooks = 15 * time.Second
)

// Now is the clock that all processes of this machine share.
func Now() driver.Instant { return driver.SystemClock().Now() }

// Bounded is a context for what must not hang.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Wait fails the test if ch is not closed, or has nothing, for too long.
func Wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Patience):
		require.Fail(t, "waited in vain", what)
		panic("unreachable")
	}
}

// Until polls what no event tells of: counters of proxies and of servers.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !cond(); {
		if time.Now().After(end) {
			require.Fail(t, "waited in vain", what)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

// GivenBack accepts that the answer to an Unlock may not come in time while the
// service is in trouble. The delete is finished in the background then.
func GivenBack(t testing.TB, h *session.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		assert.ErrorIs(t, err, session.ErrReleasePending)
	}
}

// Each calls f for all numbers below n, some at a time.
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
