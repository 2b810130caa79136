package mutex_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
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
			if op == fault.Watch && memtest.Entries(st, "x") != nil && !lost {
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
		st.Delete("x", memtest.Entries(st, "x")[0].Key)
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
