package ui_test

import (
	"encoding/json"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/ui"
)

// past returns what the page shows of the past of a lock.
func (f *fixture) past(name string) past {
	f.t.Helper()
	_, text := f.get("/lock?name=" + url.QueryEscape(name))
	var p past
	require.NoError(f.t, json.Unmarshal([]byte(text), &p), text)
	return p
}

func TestTheHistoryShowsHoldersAndTimes(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		a := f.worker("a")
		p := f.page()
		m := mutex.New(a, "orders")
		for range 3 {
			h, err := m.Lock(f.t.Context())
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			require.NoError(t, h.Unlock())
			time.Sleep(2 * time.Second)
		}
		p.take()

		holds := f.past("orders").Holds

		require.Len(t, holds, 3)
		for i, h := range holds {
			assert.Equal(t, "a", h.Label)
			assert.True(t, h.Sure, "its owner has recorded the grant")
			assert.InDelta(t, 5000, h.To-h.From, 1100)
			if i > 0 {
				assert.Greater(t, h.From, holds[i-1].To)
			}
		}
		p.close()
	})
}

// TestExclusiveHoldsDoNotOverlapInTheHistory: the end of one and the grant of the next
// happen between two reads.
func TestExclusiveHoldsDoNotOverlapInTheHistory(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		p := f.page()
		h, err := mutex.New(f.worker("a"), "orders").Lock(f.t.Context())
		require.NoError(t, err)
		defer waitFor(f, mutex.New(f.worker("b"), "orders").Lock)()
		time.Sleep(3300 * time.Millisecond)
		released := time.Now()
		require.NoError(t, h.Unlock())
		time.Sleep(3 * time.Second)
		p.take()

		holds := f.past("orders").Holds

		require.Len(t, holds, 2)
		assert.Equal(t, released.UnixMilli(), holds[1].From)
		assert.Equal(t, holds[1].From, holds[0].To)
		p.close()
	})
}

func TestTheHistoryIsBounded(t *testing.T) {
	inBubble(t, ui.Options{Interval: 100 * time.Millisecond}, func(f *fixture) {
		p := f.page()
		for range 100 {
			memtest.PutForeign(f.store, "orders", "k", true)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			f.store.Delete("orders", "k")
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		p.take()

		assert.Len(t, f.past("orders").Holds, 64)
		p.close()
	})
}

func TestTheHistoryGoesOnWhenPagesComeBack(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		h, err := mutex.New(f.worker("a"), "orders").Lock(f.t.Context())
		require.NoError(t, err)
		p := f.page()
		p.take()
		p.close()
		require.NoError(t, h.Unlock())
		time.Sleep(time.Minute)
		p = f.page()
		p.take()

		holds := f.past("orders").Holds

		require.Len(t, holds, 1)
		assert.GreaterOrEqual(t, holds[0].To-holds[0].Seen, int64(60_000), "the end is known only to lie between two reads")
		assert.Empty(t, f.state().Locks)
		p.close()
	})
}
