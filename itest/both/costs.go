package both

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// Measured is a session whose server is another process, so that what this process
// uses is the session's.
type Measured struct {
	// Client records no joins: that memory would not be the session's.
	Client *recipetest.Client

	// Entries counts the entries below the root.
	Entries func() int

	// Records counts the records below the root. A lock that has been held for a second has one, the
	// time of its grant.
	Records func() int

	// Watches counts watches: those at the server, or all that the session has made.
	Watches func() int

	// Held checks what is at the server while n locks are held, with so many watches
	// more than before, and Released when none is held any more. nil checks nothing.
	Held     func(n, watches int)
	Released func(watches int)
}

// heldHeap is more bytes of heap than a held lock with a queue of its own takes, which is 6.2 KiB. The
// two maps of its queue are 1.1 KiB of that: a map of Go has room for eight entries at once.
const heldHeap = 7 << 10

// manyLocks holds many locks several times. In the first rounds tables grow, and they stay
// when they are empty. Later, what locks leave adds up in every round. What else happens in
// the process, like one more thread for a call that blocks or a request without an answer
// in time, adds up only in some.
func manyLocks(t *testing.T, s Service) {
	n, rounds := 1000, 5
	if tier.All() {
		n, rounds = 2000, 6
	}
	m := s.Measured(t)
	recipetest.Unlock(t, m.Client.Lock(t, "warm"))
	before, threads, watched := Settled(t, m.Watches), runtime.NumGoroutine(), m.Watches()
	after := make([]int64, rounds)
	for round := range after {
		holds := make([]*session.Hold, n)
		begin := recipetest.Now()
		recipetest.Each(n, func(i int) {
			var err error
			holds[i], err = mutex.New(m.Client.Session, fmt.Sprint("lock", i)).Lock(t.Context())
			assert.NoError(t, err)
		})
		locked := recipetest.Now()
		require.False(t, t.Failed())
		require.Equal(t, n, m.Entries())
		// Every entry comes to be watched when it has been held for a moment, and the time of its
		// grant is stored after a second, by a goroutine that ends then.
		recipetest.Until(t, "a watch for each", func() bool { return m.Watches() >= watched+n })
		recipetest.Until(t, "a record for each", func() bool { return m.Records() == n })
		FewGoroutines(t, threads+20)
		held, heldThreads := Settled(t, m.Watches), runtime.NumGoroutine()
		for _, h := range holds {
			assert.Positive(t, h.Remaining())
		}
		if m.Held != nil {
			m.Held(n, m.Watches()-watched)
		}
		unlocking := recipetest.Now()
		recipetest.Each(n, func(i int) { recipetest.Unlock(t, holds[i]) })
		unlocked := recipetest.Now()
		clear(holds)

		recipetest.Until(t, "all have ended", func() bool { return m.Entries() == 0 })
		assert.Zero(t, m.Records())
		FewGoroutines(t, threads+20)
		// What a queue keeps for a moment, because programs lock in a loop, is more than that.
		recipetest.Until(t, "less than 1 KiB of heap for each name", func() bool {
			after[round] = Settled(t, m.Watches)
			return (after[round]-before)/int64(n) < 1<<10
		})
		t.Logf("%d locks acquired in %s, released in %s; %d bytes of heap for each while held, %d afterwards; goroutines %d, while held %d, afterwards %d",
			n, locked.Sub(begin), unlocked.Sub(unlocking), (held-before)/int64(n), (after[round]-before)/int64(n), threads, heldThreads, runtime.NumGoroutine())
		assert.Less(t, (held-before)/int64(n), int64(heldHeap), "bytes of heap for each lock that is held")
		if m.Released != nil {
			m.Released(m.Watches() - watched)
		}
	}
	m.Client.Kept(t)
	left := int64(math.MaxInt64)
	for i := 2; i < rounds; i++ {
		left = min(left, after[i]-after[i-1])
	}
	assert.Less(t, left/int64(n), int64(32), "bytes of heap that each lock of the last rounds left")
}

// Heap returns how many bytes of heap are in use after a collection.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FewGoroutines waits until no more than most goroutines run. That of a request in the background
// ends with its answer, so that a number read at one moment may include it.
func FewGoroutines(t testing.TB, most int) {
	t.Helper()
	recipetest.Until(t, fmt.Sprintf("at most %d goroutines", most), func() bool { return runtime.NumGoroutine() <= most })
}

// Settled waits until the heap in use and a count of watches no longer change, and returns
// the first.
func Settled(t testing.TB, watches func() int) int64 {
	t.Helper()
	last, watched, still := Heap(), watches(), 0
	for end := time.Now().Add(recipetest.Patience); time.Now().Before(end); {
		<-time.After(50 * time.Millisecond)
		h, w := Heap(), watches()
		if still++; max(h-last, last-h) > 64<<10 || w != watched {
			still = 0
		}
		if still == 6 {
			return h
		}
		last, watched = h, w
	}
	require.Fail(t, "the heap keeps moving")
	return 0
}
