package onzk_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

func TestLocksAreGrantedInOrder(t *testing.T) {
	for _, lock := range service.Locks() {
		t.Run(lock, func(t *testing.T) {
			queue, first, second := newQueue(history.Mutex), newClient(t, lock), newClient(t, lock)
			h := acquire(t, first, queue, trial.Request{})
			waiting := request(t, second, queue, trial.Request{})
			awaitEntries(t, lock, queue, 2)

			assert.True(t, h.Held())
			assert.Equal(t, h.Entry(), entries(t, lock, queue)[0])
			assert.NotZero(t, h.Place())
			assert.Equal(t, lock == trial.Ours, h.Token() == h.Place())
			assert.Empty(t, waiting)
			release(t, h)
			next := granted(t, waiting)
			assert.Greater(t, next.Place(), h.Place())
			release(t, next)
			assert.Empty(t, entries(t, lock, queue))
		})
	}
}

func TestOrderRecordsEveryRecipe(t *testing.T) {
	for recipe, requests := range map[history.Recipe][]trial.Request{
		history.Mutex:     {{}, {}},
		history.Reentrant: {{}, {}},
		history.ReadWrite: {{Shared: true}, {Shared: true}, {}, {Shared: true}},
		history.Semaphore: {{Weight: 2}, {Weight: 1}, {Weight: 3}},
	} {
		t.Run(string(recipe), func(t *testing.T) {
			queue := newQueue(recipe)
			var waiting []chan result
			for i, req := range requests {
				waiting = append(waiting, request(t, newClient(t, trial.Ours), queue, req))
				awaitEntries(t, trial.Ours, queue, i+1)
			}
			var places []int64
			for _, w := range waiting {
				h := granted(t, w)
				places = append(places, h.Place())
				release(t, h)
			}

			order, err := service.Order(within(t), trial.Ours, queue.Name)
			require.NoError(t, err)

			if recipe == history.Semaphore {
				assert.Equal(t, history.Change{At: order[0].At, Kind: history.LimitSet, Limit: 3, Seen: order[0].Seen}, order[0])
				order = order[1:]
			}
			require.Len(t, order, 2*len(requests))
			for i, req := range requests {
				want := history.Change{
					At: places[i], Kind: history.Joined, Place: places[i], Shared: req.Shared, Weight: max(req.Weight, 1), Seen: order[i].Seen,
				}
				assert.Equal(t, want, order[i])
				left := order[len(requests)+i]
				want.Kind, want.At, want.Seen = history.Left, left.At, left.Seen
				assert.Equal(t, want, left)
			}
		})
	}
}

func TestNestedRequestsShareAHold(t *testing.T) {
	c := newClient(t, trial.Ours)
	queue := newQueue(history.Reentrant)
	outer := acquire(t, c, queue, trial.Request{})
	inner := acquire(t, c, queue, trial.Request{Within: outer})
	assert.Equal(t, outer.Token(), inner.Token())
	assert.Len(t, entries(t, trial.Ours, queue), 1)
	release(t, inner)
	release(t, outer)

	queue = newQueue(history.ReadWrite)
	writer := acquire(t, c, queue, trial.Request{})
	reader := acquire(t, c, queue, trial.Request{Shared: true, Within: writer})
	release(t, writer)
	behind := acquire(t, newClient(t, trial.Ours), queue, trial.Request{Shared: true})
	assert.True(t, reader.Held())
	release(t, reader)
	release(t, behind)
	order, err := service.Order(within(t), trial.Ours, queue.Name)
	require.NoError(t, err)
	for i := range order {
		order[i].At, order[i].Seen = 0, 0
	}
	was, is := writer.Place(), behind.Place()
	assert.Equal(t, []history.Change{
		{Kind: history.Joined, Place: was, Weight: 1},
		{Kind: history.Shares, Place: was, Shared: true, Weight: 1},
		{Kind: history.Joined, Place: is, Shared: true, Weight: 1},
		{Kind: history.Left, Place: was, Shared: true, Weight: 1},
		{Kind: history.Left, Place: is, Shared: true, Weight: 1},
	}, order)
}

func TestCutHoldersAreNotified(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		for _, d := range fault.Directions() {
			t.Run(d.String(), func(t *testing.T) {
				t.Parallel()
				queue, holder, other := newQueue(history.Mutex), newClient(t, lock), newClient(t, lock)
				h := acquire(t, holder, queue, trial.Request{})
				waiting := request(t, other, queue, trial.Request{})
				awaitEntries(t, lock, queue, 2)

				holder.Cut(d)
				awaitDone(t, h)

				assert.Positive(t, holder.Traffic().Waiting)
				next := granted(t, waiting)
				assert.False(t, h.Held())
				holder.Heal()
				outcome, err := h.Release(within(t))
				assert.True(t, err != nil || outcome == history.Lost || outcome == history.Pending, "%s: %v", outcome, err)
				release(t, next)
				eventually(t, "it works again", func() bool {
					h, err := holder.Acquire(within(t), queue, trial.Request{})
					if err == nil {
						release(t, h)
					}
					return err == nil
				})
			})
		}
	})
}

func TestRequestsEndWithTheirContexts(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		queue, holder, other := newQueue(history.Mutex), newClient(t, lock), newClient(t, lock)
		h := acquire(t, holder, queue, trial.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()

		_, err := other.Acquire(ctx, queue, trial.Request{})

		require.ErrorIs(t, err, context.DeadlineExceeded)
		awaitEntries(t, lock, queue, 1)
		if lock == trial.Ours {
			require.NotErrorIs(t, err, trial.ErrUseless)
		} else {
			require.ErrorIs(t, err, trial.ErrUseless, "cancelling needs the connection closed")
		}
		release(t, h)
	})
}

func TestRepliesOfEveryKindCanBeLost(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		kinds := newClient(t, lock).Kinds()
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				queue, first, second := newQueue(history.Mutex), newClient(t, lock), newClient(t, lock)
				release(t, acquire(t, second, queue, trial.Request{})) // the first client of a queue sends more requests
				h := acquire(t, first, queue, trial.Request{})
				before := second.Traffic().Connections
				hit := second.Lose(kind)
				assert.False(t, hit())
				waiting := request(t, second, queue, trial.Request{})
				awaitEntries(t, lock, queue, 2)
				if kind != onzk.Delete {
					eventually(t, "a "+kind, hit)
				}
				release(t, h)
				w := <-waiting
				if w.err != nil { // zk.Lock gives up in most cases
					require.Equal(t, onzk.Stock, lock, w.err)
					assert.True(t, hit())
					return
				}
				if kind == onzk.Delete {
					outcome, err := w.hold.Release(within(t))
					assert.Equal(t, lock == trial.Ours, err == nil && outcome == history.Released, "%s: %v", outcome, err)
				} else {
					release(t, w.hold)
				}

				assert.True(t, hit())
				awaitEntries(t, lock, queue, 0)
				assert.Greater(t, second.Traffic().Connections, before, "the connection is lost too")
			})
		}
	})
}

func TestClientsConnectToTheirFirstMember(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		for _, members := range [][]int{{2}, {1, 0}, {0, 1, 2}} {
			c := newClient(t, lock, members...)
			assert.Equal(t, members[0], c.Member())
			queue := newQueue(history.Mutex)
			before := c.Traffic()
			c.Delay(100 * time.Millisecond)
			began := time.Now()
			h := acquire(t, c, queue, trial.Request{})
			assert.Greater(t, time.Since(began), 100*time.Millisecond)
			c.Heal()
			c.Reset()
			eventually(t, "another connection", func() bool {
				return c.Traffic().Connections > before.Connections && c.Member() >= 0
			})
			assert.Contains(t, members, c.Member())
			if lock == trial.Ours {
				release(t, h)
			}
		}
	})
}
