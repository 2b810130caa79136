package report

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A request that waits may log while Close ends the reports. The race detector sees what
// the test does not.
func TestNothingIsReportedAfterTheEnd(t *testing.T) {
	for range 1000 {
		q := New[int](slog.New(slog.DiscardHandler))
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
	q := New[int](slog.New(slog.DiscardHandler))
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
	q := New[int](slog.New(slog.NewTextHandler(&log, nil)))
	q.Finish()
	sum := 0
	q.Add(t.Context(), func(_ context.Context, n int) { sum += n }, 1)
	q.Must(t.Context(), func(_ context.Context, n int) { sum += n }, 10)
	q.Logger().Info("dropped")

	assert.Equal(t, 10, sum)
	assert.Empty(t, log.String())
}

// Requests that end after Close call their hooks, one after the other, and no goroutine begins.
// The race detector sees what the test does not.
func TestEveryMustIsMadeOnceAfterTheEnd(t *testing.T) {
	q := New[int](slog.New(slog.DiscardHandler))
	q.Finish()
	sum := 0
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			q.Must(t.Context(), func(_ context.Context, n int) { sum += n }, 1)
		})
	}
	callers.Wait()

	assert.Equal(t, 100, sum)
}

// What is dropped is counted, and logged behind the calls that were in its way.
func TestDroppedReportsAreCountedInTheLog(t *testing.T) {
	var log strings.Builder
	q := New[int](slog.New(slog.NewTextHandler(&log, nil)))
	blocked, resume := make(chan struct{}), make(chan struct{})
	q.Add(t.Context(), func(context.Context, int) {
		close(blocked)
		<-resume
	}, 0)
	<-blocked
	for range maxWaiting + 7 {
		q.Add(t.Context(), func(context.Context, int) { assert.Empty(t, log.String()) }, 0)
	}
	close(resume)
	q.Finish()

	assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	assert.Contains(t, log.String(), "reports=7")
}
