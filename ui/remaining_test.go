package ui_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

// holder holds "orders" with a session of its own, on a client of its own.
func (f *fixture) holder() (c *membackend.Client, id string) {
	f.t.Helper()
	c = f.store.NewClient()
	s, err := c.Open(f.t.Context(), &session.Options{Label: "a", TTL: 10 * time.Second})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		c.Heal()
		assert.NoError(f.t, s.Close())
	})
	_, err = mutex.New(s, "orders").Lock(f.t.Context())
	require.NoError(f.t, err)
	queue, err := s.Queue(f.t.Context(), "orders")
	require.NoError(f.t, err)
	return c, queue[0].Session
}

func TestTheRemainingTTLShowsWhetherAHolderLives(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		c, id := f.holder()
		waiting := waitFor(f, mutex.New(f.worker("b"), "orders").Lock)
		assert.Empty(t, f.past("orders").Left, "the queue is not read yet")
		p := f.page()
		p.take()
		for range 30 { // three TTLs
			got := f.past("orders")
			assert.Len(t, got.Left, 1, "of the holder only")
			assert.Greater(t, got.Left[id], int64(6000), "it is renewed")
			assert.LessOrEqual(t, got.Left[id], int64(10_000))
			assert.Equal(t, time.Now().UnixMilli(), got.At)
			time.Sleep(time.Second)
		}

		c.Cut(fault.Both)
		cut := time.Now()
		for time.Since(cut) < 7*time.Second {
			time.Sleep(time.Second)
			assert.LessOrEqual(t, f.past("orders").Left[id], 10_000-time.Since(cut).Milliseconds())
		}
		time.Sleep(4 * time.Second)
		assert.NotContains(t, f.past("orders").Left, id, "it is over")
		p.close()
		waiting()
	})
}

func TestPagesShareOneAnswerAboutRemainingTTLs(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		_, id := f.holder()
		p := f.page()
		p.take()
		f.past("orders")
		time.Sleep(1500 * time.Millisecond)
		f.link.Delay(100 * time.Millisecond)
		before := f.link.Requests()
		var pages sync.WaitGroup
		for range 50 {
			pages.Go(func() { assert.Contains(t, f.past("orders").Left, id) })
		}
		pages.Wait()
		assert.Equal(t, before+1, f.link.Requests())
		p.close()

		time.Sleep(10 * time.Second)
		before = f.link.Requests()
		assert.Empty(t, f.past("orders").Left)
		assert.Equal(t, before, f.link.Requests(), "no page is open")
	})
}

func TestRemainingTTLsOfAtMostEightSessions(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for range 12 {
			s := f.worker("a")
			for range 2 {
				_, err := rwlock.New(s, "orders").RLock(f.t.Context())
				require.NoError(t, err)
			}
		}
		p := f.page()
		p.take()

		assert.Len(t, f.past("orders").Left, 8)
		p.close()
	})
}

// TestAServiceWithoutRemainingTTLsShowsTheRest: one that reports them to no client, or that does not
// answer for a moment, or for long.
func TestAServiceWithoutRemainingTTLsShowsTheRest(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		f.holder()
		p := f.page()
		p.take()
		f.untold.Store(true)
		got := f.past("orders")
		assert.Empty(t, got.Left)
		assert.Len(t, got.Holds, 1)
		f.untold.Store(false)

		time.Sleep(1500 * time.Millisecond)
		f.link.Cut(fault.Both)
		for i := range 20 {
			began := time.Now()
			got = f.past("orders")
			assert.Empty(t, got.Left)
			assert.Len(t, got.Holds, 1)
			limit := time.Second
			if i > 11 { // a tick has found out that there is no answer
				limit = 0
			}
			assert.LessOrEqual(t, time.Since(began), limit, "round %d", i)
			time.Sleep(time.Second)
		}
		f.link.Heal()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		assert.Len(t, f.past("orders").Left, 1, "it comes back")
		p.close()
	})
}
