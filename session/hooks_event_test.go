package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// TestEventsHaveTheWaitAndTheHolder measures in virtual time.
func TestEventsHaveTheWaitAndTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openHooked(t)
		first, err := mutex.New(x.other, "n").Lock(t.Context())
		require.NoError(t, err)
		leaving, leave := context.WithCancel(t.Context())
		go func() { _, _ = mutex.New(x.other, "n").Lock(leaving) }() // joins between them
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			leave()
			time.Sleep(2 * time.Second)
			assert.NoError(t, first.Unlock())
		}()
		began := time.Now()
		h := x.lock()
		granted := x.last()
		time.Sleep(4 * time.Second)
		require.NoError(t, h.Unlock())
		released := x.last()

		assert.Equal(t, 3*time.Second, granted.Waited)
		assert.Equal(t, began.Add(3*time.Second), granted.At)
		assert.Positive(t, granted.Left)
		if assert.NotNil(t, granted.WaitedFor) {
			assert.Equal(t, first.Token(), granted.WaitedFor.Token)
			assert.Equal(t, first.SessionID(), granted.WaitedFor.Session)
		}
		assert.Equal(t, []time.Duration{3 * time.Second, 4 * time.Second}, []time.Duration{released.Waited, released.Held})
		assert.Equal(t, began.Add(7*time.Second), released.At)
		assert.Equal(t, h.Token(), released.Token)
		var ahead []int
		for _, e := range x.events {
			assert.Equal(t, granted.ID, e.ID)
			ahead = append(ahead, e.Ahead)
		}
		assert.Equal(t, 2, ahead[1], "as it joined")
		require.NoError(t, x.Close())
		require.NoError(t, x.other.Close())
	})
}

// TestHoldHasTheValuesOfStarted: so that spans begun in the work have the right parent.
// A hook that returns nil changes nothing.
func TestHoldHasTheValuesOfStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openHooked(t)
		h := x.lock()
		assert.Equal(t, "n", h.Context().Value(valueKey{}))
		require.NoError(t, h.Unlock())
		require.NoError(t, x.Close())
		require.NoError(t, x.other.Close())

		s, err := x.st.Open(t.Context(), &session.Options{Hooks: session.Hooks{
			Started: func(context.Context, session.Event) context.Context { return nil },
		}})
		require.NoError(t, err)
		ctx := context.WithValue(t.Context(), valueKey{}, "mine")
		h, err = mutex.New(s, "n").Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, "mine", h.Context().Value(valueKey{}))
		require.NoError(t, h.Unlock())
		require.NoError(t, s.Close())
	})
}

// TestEventsOfSeveralLocksAreOfOneRequest: Ahead is the largest number, and WaitedFor
// the entry that ended last, in whichever queue.
func TestEventsOfSeveralLocksAreOfOneRequest(t *testing.T) {
	for _, last := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			x := openHooked(t)
			held := map[string]*session.Hold{}
			for _, name := range []string{"a", "b"} {
				h, err := mutex.New(x.other, name).Lock(t.Context())
				require.NoError(t, err)
				held[name] = h
			}
			leaving, leave := context.WithCancel(t.Context())
			go func() { _, _ = mutex.New(x.other, "b").Lock(leaving) }()
			synctest.Wait()
			go func() {
				time.Sleep(time.Second)
				leave()
				for name, h := range held {
					if name != last {
						assert.NoError(t, h.Unlock())
					}
				}
				time.Sleep(time.Second)
				assert.NoError(t, held[last].Unlock())
			}()
			h, err := mutex.LockAll(t.Context(), mutex.New(x.Session, "a"), mutex.New(x.Session, "b"))
			require.NoError(t, err)
			granted := x.last()

			assert.Equal(t, "a, b", granted.Name)
			assert.Equal(t, 2, x.events[1].Ahead, "as it joined")
			assert.Equal(t, h.Token(), granted.Token)
			if assert.NotNil(t, granted.WaitedFor) {
				assert.Equal(t, held[last].Token(), granted.WaitedFor.Token)
			}
			require.NoError(t, x.Close())
			require.NoError(t, x.other.Close())
		})
	}
}

// TestTheIDStaysWhereTheTokenDoesNot: a hold with a slot has a token of its own.
func TestTheIDStaysWhereTheTokenDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openHooked(t)
		h, err := semaphore.NewWith(x.Session, "n", 2, semaphore.Options{Slots: true}).Acquire(t.Context(), 2)
		require.NoError(t, err)
		granted := x.last()
		assert.Equal(t, h.Token(), granted.Token)
		assert.EqualValues(t, 2, granted.Weight)
		assert.Equal(t, session.Weighted, granted.Mode)
		require.NoError(t, h.Unlock())
		assert.Equal(t, granted.ID, x.last().ID)
		assert.NotEqual(t, x.events[1].Token, granted.Token)
		require.NoError(t, x.Close())
		require.NoError(t, x.other.Close())
	})
}
