package yield_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// core is package session as the packages of this module see it.
var core = session.Engine(door.Key{})

// hold opens a session that holds the lock "n".
func hold(t *testing.T) (st *membackend.Store, c *membackend.Client, s *session.Session, h *session.Hold) {
	t.Helper()
	st, c, s = memtest.Open(t)
	h, err := mutex.New(s, "n").Lock(t.Context())
	require.NoError(t, err)
	return st, c, s, h
}

// two returns a client with a hold of the lock "n", and another session.
func two(t *testing.T) (st *membackend.Store, c *membackend.Client, h *session.Hold, other *session.Session) {
	t.Helper()
	st, c, _, h = hold(t)
	other, err := st.Open(t.Context(), &session.Options{Label: "operator"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Close()) })
	return st, c, h, other
}

// sent returns how many requests a client has sent, watches included and renewals not.
func sent(c *membackend.Client) int {
	n := 0
	for _, op := range []fault.Op{
		fault.Join, fault.Leave, fault.Update, fault.Read, fault.Watch,
		fault.Settle, fault.Names,
	} {
		n += c.Sent(op)
	}
	return n
}

func TestAHoldThatDoesNotSubscribeSendsNothingForYieldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, h, other := two(t)
		time.Sleep(2 * time.Second) // its own entry is watched by then, and its grant recorded
		before := sent(c)
		for range 100 {
			withdraw, err := yield.Send(t.Context(), other, "n", "why not")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.NoError(t, withdraw())
		}
		assert.Equal(t, before, sent(c))

		withdraw, err := yield.Send(t.Context(), other, "n", "now")
		require.NoError(t, err)
		_, err = yield.Next(t.Context(), h)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.LessOrEqual(t, sent(c), before+2, "one watch and one read, and nothing after the call")
		require.NoError(t, withdraw())
	})
}

// A subscription of an hour reads now and then, because an event may be lost.
func TestASubscriptionReadsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, h, _ := two(t)
		time.Sleep(time.Second)
		before := sent(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := yield.Next(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		cost := sent(c) - before
		assert.Greater(t, cost, 100)
		assert.Less(t, cost, 350, "each in 11 to 19 s")
	})
}

func TestInvalidReasonsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, h, _ := two(t)
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		defer s.Close()
		before := sent(c)
		_, err = yield.Send(t.Context(), s, "n", strings.Repeat("é", yield.MaxReason/2)+"x")
		require.ErrorIs(t, err, yield.ErrInvalidReason)
		require.EqualError(t, err, `yield: send a request for "n": invalid reason: it has 257 bytes, more than the maximum of 256`)
		_, err = yield.Send(t.Context(), s, "n", "a\xffb")
		require.ErrorIs(t, err, yield.ErrInvalidReason)
		require.EqualError(t, err, `yield: send a request for "n": invalid reason "a\xffb": it is not UTF-8`)
		_, err = yield.Send(t.Context(), s, "", "x")
		require.ErrorIs(t, err, session.ErrInvalidName)
		_, err = yield.Send(t.Context(), s, driver.AskQueue("n"), "x")
		require.ErrorIs(t, err, session.ErrInvalidName)
		require.ErrorIs(t, s.Evict(t.Context(), session.Entry{Key: "k"}), session.ErrGone)
		var none *session.Session
		_, err = yield.Send(t.Context(), none, "n", "x")
		require.ErrorIs(t, err, session.ErrClosed)
		require.ErrorIs(t, none.Evict(t.Context(), session.Entry{}), session.ErrClosed)
		assert.Equal(t, before, sent(c))

		long := strings.Repeat("é", yield.MaxReason/2)
		withdraw, err := yield.Send(t.Context(), s, "n", long)
		require.NoError(t, err)
		a, err := yield.Next(t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, long, a.Reason)
		require.NoError(t, withdraw())
	})
}

func TestASubscriptionLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memtest.CountWatches(membackend.New().Backend())
		s, err := core.Open(t.Context(), b, nil)
		require.NoError(t, err)
		defer s.Close()
		h, err := mutex.LockAll(t.Context(), mutex.New(s, "n"), mutex.New(s, "m"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		before := b.Live() // the watches on its own entries
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			go func() {
				time.Sleep(time.Second)
				assert.Equal(t, before+2, b.Live(), "one for each name")
			}()
			_, err = yield.Next(ctx, h)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, before, b.Live())
		}
		require.NoError(t, h.Unlock())
		_, err = yield.Next(t.Context(), h)
		require.ErrorIs(t, err, session.ErrUnlocked)
		require.Zero(t, b.Live())
	})
}

// Another client can write anything into a yield request.
func TestABrokenYieldRequestIsReadAsFarAsPossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, h, other := two(t)
		requests := driver.AskQueue("n")
		for value, reason := range map[string]string{
			"": "", "\xff\x00": "\x00", "{": "{", strings.Repeat("é", 1000) + "x": strings.Repeat("é", 128),
			"x" + strings.Repeat("é", 1000): "x" + strings.Repeat("é", 127),
		} {
			withdraw, err := yield.Send(t.Context(), other, "n", "please")
			require.NoError(t, err)
			memtest.Overwrite(st, requests, memtest.Entries(st, requests)[0].Key, []byte(value))
			a, err := yield.Next(t.Context(), h)
			require.NoError(t, err)
			assert.Equal(t, reason, a.Reason, "%.10q", value)
			assert.Equal(t, "operator", a.Label)
			require.NoError(t, withdraw())
		}
	})
}

func TestAYieldRequestIsWithdrawnInTheBackgroundDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s := memtest.Open(t)
		withdraw, err := yield.Send(t.Context(), s, "n", "x")
		require.NoError(t, err)
		c.Cut(fault.Both)
		begin := time.Now()
		require.ErrorIs(t, withdraw(), session.ErrReleasePending)
		assert.Equal(t, time.Second, time.Since(begin))
		require.Len(t, memtest.Entries(st, driver.AskQueue("n")), 1)
		c.Heal()
		time.Sleep(5 * time.Second)
		synctest.Wait()

		assert.Empty(t, memtest.Entries(st, driver.AskQueue("n")))
		require.ErrorIs(t, withdraw(), session.ErrReleasePending, "a later call returns the same")
		require.NoError(t, s.Close())
		_, err = yield.Send(t.Context(), s, "n", "x")
		require.ErrorIs(t, err, session.ErrClosed)
	})
}

// The answer to the join is lost, and the caller stops waiting for it.
func TestAYieldRequestThatIsGivenUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s := memtest.Open(t)
		made := new(atomic.Bool)
		c.OnSend(func(op fault.Op) {
			if op == fault.Settle && len(memtest.Entries(st, driver.AskQueue("n"))) == 1 {
				made.Store(true)
			}
		})
		c.Cut(fault.Replies)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := yield.Send(ctx, s, "n", "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.Heal()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		assert.True(t, made.Load(), "it was there when it was given up")
		assert.Empty(t, memtest.Entries(st, driver.AskQueue("n")))
	})
}

// The service session ends at the very moment at which the request is sent. The request
// goes to the next service session, and ends with that.
func TestAYieldRequestIsSentInASessionThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s := memtest.Open(t)
		st.Expire("m1")
		withdraw, err := yield.Send(t.Context(), s, "n", "x")
		require.NoError(t, err)
		requests := memtest.Entries(st, driver.AskQueue("n"))
		require.Len(t, requests, 1)
		assert.Equal(t, "m2", requests[0].Session)
		st.Expire("m2")
		require.NoError(t, withdraw(), "it is gone, with the session")
	})
}
