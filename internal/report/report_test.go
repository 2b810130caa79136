package report

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A request that waits may log while Close ends the reports. The race detector sees what
// the test does not.
func TestNothingIsReportedAfterTheEnd(t *testing.T) {
	for range 1000 {
		q := New[int](slog.New(slog.DiscardHandler), 0)
		var mu sync.Mutex
		over := false
		var adders sync.WaitGroup
		for range 4 {
			adders.Go(func() {
				q.Add(t.Context(), func(context.Context, int) {
					mu.Lock()
					defer mu.Unlock()
					assert.False(t, over, "reported after the end")
				}, 0)
			})
		}
		q.Finish()
		mu.Lock()
		over = true
		mu.Unlock()
		adders.Wait()
	}
}

// While a hook blocks, the queue keeps the outcomes, however many they are, because gauges
// are made of them. It drops the rest.
func TestOutcomesAreNeverDropped(t *testing.T) {
	q := New[int](slog.New(slog.DiscardHandler), 0)
	blocked, resume := make(chan struct{}), make(chan struct{})
	q.Add(t.Context(), func(context.Context, int) {
		close(blocked)
		<-resume
	}, 0)
	<-blocked
	positions, outcomes := 0, 0
	for range 2 * maxWaiting {
		q.Add(t.Context(), func(context.Context, int) { positions++ }, 0)
		q.Must(t.Context(), func(context.Context, int) { outcomes++ }, 0)
	}
	close(resume)
	q.Finish()

	assert.Equal(t, 2*maxWaiting, outcomes)
	assert.Equal(t, maxWaiting/2, positions)
}

// The caller of Must makes the call itself once the queue is finished.
func TestMustIsDoneAfterTheEnd(t *testing.T) {
	var log strings.Builder
	q := New[int](slog.New(slog.NewTextHandler(&log, nil)), 0)
	q.Finish()
	sum := 0
	q.Add(t.Context(), func(_ context.Context, n int) { sum += n }, 1)
	q.Must(t.Context(), func(_ context.Context, n int) { sum += n }, 10)
	q.Logger().Info("dropped")

	assert.Equal(t, 10, sum)
	assert.Empty(t, log.String())
}

// While the goroutine rests, reports wait; the end of the rest makes their calls, and so do
// Flush and Finish, at once.
func TestReportsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = time.Second
		q, begin := New[int](slog.New(slog.DiscardHandler), rest), time.Now()
		var made atomic.Int64
		add := func() int64 {
			q.Must(t.Context(), func(context.Context, int) { made.Add(1) }, 0)
			synctest.Wait()
			return made.Load()
		}
		assert.EqualValues(t, 1, add(), "the goroutine begins with this one")
		add()
		assert.EqualValues(t, 1, add(), "it rests")
		time.Sleep(rest)
		synctest.Wait()
		assert.EqualValues(t, 3, made.Load())
		assert.EqualValues(t, 3, add(), "it rests again")
		q.Flush()
		assert.EqualValues(t, 4, made.Load())
		synctest.Wait()
		assert.EqualValues(t, 4, add(), "and again")
		q.Finish()
		assert.EqualValues(t, 5, made.Load())
		assert.Equal(t, rest, time.Since(begin), "neither Flush nor Finish waits for a rest")
	})
}
