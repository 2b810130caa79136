package mutex_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// One lock of two is lost while the other is waited for, and the watch that would
// tell does not come about.
func TestAllAreReadBeforeTheGrantWhereNoWatchVouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		other := open(t, st, nil)
		y, err := mutex.New(other, "y").Lock(t.Context())
		require.NoError(t, err)
		c := st.NewClient()
		s := open(t, c, nil)
		lost := false
		c.OnSend(func(op fault.Op) {
			if op == fault.Watch && st.Entries("x") != nil && !lost {
				// The watch of the entry in the line that it has got is the last one.
				if c.Sent(fault.Watch) == 2 {
					lost = true
					c.Inject(fault.Watch, fault.LostRequest)
				}
			}
		})
		got := make(chan *session.Hold, 1)
		go func() {
			h, err := mutex.LockAll(t.Context(), mutex.New(s, "x"), mutex.New(s, "y"))
			assert.NoError(t, err)
			got <- h
		}()
		synctest.Wait()
		require.True(t, lost, "the watch was lost")
		c.OnRequest(nil)
		st.Delete("x", st.Entries("x")[0].Key)
		x, err := mutex.New(other, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, y.Unlock())
		synctest.Wait()

		require.Empty(t, got, "two hold at once")
		require.NoError(t, x.Unlock())
		h := <-got
		assert.Greater(t, h.Token(), x.Token())
		require.NoError(t, h.Unlock())
	})
}

// Who joins while the ledger is clean has its name entered at once, though it
// waits. What it is told then is not what it needs to know when it holds.
func TestWhoJoinedOverACleanLedgerAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		robust := mutex.Options{Robust: true}
		first, err := mutex.NewWith(open(t, st, nil), "n", robust).Lock(t.Context())
		require.NoError(t, err)
		slow := st.NewClient()
		second := begin(t.Context(), t, mutex.NewWith(open(t, slow, nil), "n", robust))
		slow.DelayRequests(time.Second)
		require.NoError(t, first.Unlock())
		third := begin(t.Context(), t, mutex.NewWith(open(t, st, nil), "n", robust))
		h := <-second
		assert.Equal(t, session.PastClean, h.Previous())
		st.Expire(h.SessionID())

		h3 := <-third
		assert.True(t, h3.PreviousDied())
		require.NoError(t, h3.Unlock())
		slow.Heal()
	})
}

func TestPlaceLostInALockDelayIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		delay := mutex.Options{LockDelay: time.Minute}
		_, err := mutex.NewWith(open(t, st, nil), "n", delay).Lock(t.Context())
		require.NoError(t, err)
		st.Expire(st.Sessions()[0])
		at := time.Now()
		got := begin(t.Context(), t, mutex.NewWith(open(t, st, nil), "n", delay))
		time.Sleep(20 * time.Second)
		st.Delete("n", st.Entries("n")[0].Key)
		h := <-got

		assert.Equal(t, 80*time.Second, time.Since(at), "20 in vain and 60 from the new place")
		assert.True(t, h.PreviousDied())
		require.NoError(t, h.Unlock())
	})
}
