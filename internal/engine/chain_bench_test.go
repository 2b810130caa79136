package engine_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

// BenchmarkChain measures a hand-off down a queue whose waiters are all in one process. A
// hand-off must not cost much more in a long queue than in a short one.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := inside().Open(b.Context(), membackend.New().Backend(), nil)
			require.NoError(b, err)
			defer s.Close()
			var spent time.Duration
			var heap int64
			handoffs := 0
			for handoffs < b.N {
				d, h := chain(b, s, n)
				spent, heap, handoffs = spent+d, max(heap, h), handoffs+n
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(handoffs), "ns/hand-off")
			b.ReportMetric(float64(heap), "B/waiter")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime is what this process has used: the time of day depends on what else the
// machine does.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// chain has n requests wait for one that holds, and then hold in turn. It returns what
// processor time that took, and what heap each has used while it waited.
func chain(b *testing.B, s *session.Session, n int) (time.Duration, int64) {
	acquire := func() *session.Hold {
		h, err := inside().Acquire(b.Context(), s, engine.Request{Name: "n", Kind: "chain", Rule: rule.Mutex()})
		if err != nil {
			b.Error(err)
		}
		return h
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	first := acquire()
	done := make(chan struct{}, n)
	for range n {
		go func() {
			_ = acquire().Unlock()
			done <- struct{}{}
		}()
	}
	for {
		entries, err := s.Queue(b.Context(), "n")
		require.NoError(b, err)
		if len(entries) == n+1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // until all wait in their own way
	runtime.GC()
	runtime.ReadMemStats(&after)
	began := processorTime(b)
	require.NoError(b, first.Unlock())
	for range n {
		<-done
	}
	return processorTime(b) - began, (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n) //nolint:gosec // far below 2⁶³
}
