package recipetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// crowds are the cases of many holders at once, with room for one more.
func crowds() []testCase {
	return []testCase{
		{"AFreeReadLockBehindManyCostsOneReadMoreThanBehindTwo", func(w *Fixture) { w.withMany(reading) }},
		{"AFreePermitBehindManyCostsOneReadMoreThanBehindTwo", func(w *Fixture) { w.withMany(wanting(1, 10_000)) }},
	}
}

// holders is the number of holders. Reads that show eight times as many entries each time need
// four for so many; two are enough.
const holders = 200

// withMany counts the requests for a hold that is granted behind two holds of another
// session, and behind many. What a backend sends for each hold is in both counts.
func (w *Fixture) withMany(lock locking) {
	many, one := w.Client("many"), w.Client("one")
	var holds []*session.Hold
	add := func(n int) {
		for range n {
			h, err := lock(w.soon(), many.Session)
			require.NoError(w.t, err)
			holds = append(holds, h)
			<-many.joined
		}
	}
	cost := func() int {
		before := one.rests()
		h, err := lock(w.soon(), one.Session)
		took := one.net.Requests() - before
		require.NoError(w.t, err)
		<-one.joined
		w.unlock(h)
		return took
	}
	// The least counts: requests of the background may be counted too, or may come later, and
	// servers that are slow only add to it.
	add(2)
	few := min(cost(), cost(), cost())
	add(holders - 2)
	least := min(cost(), cost(), cost())
	for end := time.Now().Add(w.timeout()); least > few+1 && !w.h.Virtual && time.Now().Before(end); {
		least = min(least, cost())
	}
	assert.LessOrEqual(w.t, least, few+1, "requests to hold behind %d holders; %d behind two", holders, few)
	for _, h := range holds {
		w.unlock(h)
	}
}

// semaphoreCrowds are the cases of many at once.
func semaphoreCrowds() []testCase {
	return []testCase{
		{"ManyGoroutinesNeverHaveMorePermitsThanThereAre", func(w *Fixture) { crowd(w, 6, 6) }},
		{"ManyGoroutinesNeverHaveMorePermitsWhileTheyAreResized", func(w *Fixture) { crowd(w, 3, 9) }},
		{"ManyGoroutinesHaveSlotsOfTheirOwn", crowdOfSlots},
	}
}

// many is n, or a fifth of it on servers that serve other cases at the same time.
func (w *Fixture) many(n int) int {
	if w.h.Parallel {
		return n / 5
	}
	return n
}

// crowd has hundreds of goroutines of a few sessions request permits, some of
// which give up, while the limit goes up and down between the two.
func crowd(w *Fixture, least, most int64) {
	seed := rand.Uint64()
	w.t.Logf("seed %d", seed)
	ps := w.clients(4)
	ps[0].resize(most)
	var inside, highest, granted atomic.Int64
	work := func(p *Client, random *rand.Rand) {
		n := 1 + random.Int64N(least)
		ctx, cancel := context.WithCancel(w.soon())
		defer cancel()
		if random.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(w.short/25))))
			defer cancel()
		}
		h, err := following(n, most)(ctx, p.Session)
		if err != nil {
			assert.ErrorIs(w.t, err, context.DeadlineExceeded)
			return
		}
		now := inside.Add(n)
		assert.LessOrEqual(w.t, now, most, "more permits are out than there are")
		highest.Store(max(highest.Load(), now))
		granted.Add(1)
		time.Sleep(time.Duration(random.Int64N(int64(w.short / 1000)))) // it works
		inside.Add(-n)
		w.unlock(h)
	}
	var wg sync.WaitGroup
	for g := range w.many(200) {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		wg.Go(func() {
			for range 2 {
				work(ps[g%len(ps)], random)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	w.resizeUntil(done, ps[0], rand.New(rand.NewPCG(seed, 1000)), least, most)
	assert.Greater(w.t, granted.Load(), int64(w.many(200)), "most of the two requests of each goroutine are granted")
	assert.Greater(w.t, highest.Load(), least/2, "several hold at a time")
}

// resizeUntil gives the queue one limit after another until done is closed.
func (w *Fixture) resizeUntil(done <-chan struct{}, p *Client, random *rand.Rand, least, most int64) {
	w.t.Helper()
	for {
		select {
		case <-done:
			return
		case <-time.After(w.short / time.Duration(w.many(100))):
			if least < most {
				p.resize(least + random.Int64N(most-least+1))
			}
		}
	}
}

func crowdOfSlots(w *Fixture) {
	const limit = 5
	ps := w.clients(3)
	var mu sync.Mutex
	taken := map[int]bool{}
	var wg sync.WaitGroup
	for g := range w.many(60) {
		m := semaphore.NewWith(ps[g%len(ps)].Session, name, limit, semaphore.Options{Slots: true})
		wg.Go(func() {
			for range 2 {
				err := m.Do(w.soon(), 1, func(_ context.Context, h *session.Hold) error {
					mu.Lock()
					assert.False(w.t, taken[h.Slot()], "two have slot %d", h.Slot())
					assert.Less(w.t, h.Slot(), limit)
					assert.GreaterOrEqual(w.t, h.Slot(), 0)
					taken[h.Slot()] = true
					mu.Unlock()
					time.Sleep(w.short / 2500) // it works
					mu.Lock()
					defer mu.Unlock()
					delete(taken, h.Slot())
					return nil
				})
				w.released(err)
			}
		})
	}
	wg.Wait()
	require.Empty(w.t, taken)
}
