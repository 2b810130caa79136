package mutex_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// One lock of two is lost while the other is waited for, and no watch is armed that would
// report it. They are armed late, in any order.
func TestNoLockOfSeveralIsGrantedWithoutItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		other := open(t, st, nil)
		y, err := mutex.New(other, "y").Lock(t.Context())
		require.NoError(t, err)
		c := st.NewClient()
		s := open(t, c, nil)
		for range 3 { // on the lock that it has got, on the other one, and on the holder of that
			c.Inject(fault.Watch, fault.LostRequest)
		}
		got := make(chan *session.Hold, 1)
		go func() {
			h, err := mutex.LockAll(t.Context(), mutex.New(s, "x"), mutex.New(s, "y"))
			assert.NoError(t, err)
			got <- h
		}()
		synctest.Wait()
		st.Delete("x", memtest.Entries(st, "x")[0].Key)
		x, err := mutex.New(other, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, y.Unlock())
		time.Sleep(session.DefaultTTL)

		require.Empty(t, got, "two hold at once")
		require.NoError(t, x.Unlock())
		h := <-got
		assert.Greater(t, h.Token(), x.Token())
		require.NoError(t, h.Unlock())
	})
}
