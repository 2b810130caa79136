package session

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/door"
)

// A request that waits may log while Close ends the reports. The race detector sees
// what the test does not.
func TestNothingIsReportedAfterTheEnd(t *testing.T) {
	for range 1000 {
		var r reports
		var mu sync.Mutex
		over := false
		var adders sync.WaitGroup
		for range 4 {
			adders.Go(func() {
				r.add(&report{call: func() {
					mu.Lock()
					defer mu.Unlock()
					assert.False(t, over, "reported after the end")
				}})
			})
		}
		r.finish()
		mu.Lock()
		over = true
		mu.Unlock()
		adders.Wait()
	}
}

// While a hook blocks, what a gauge is made of is kept, however much it is, and the rest
// is dropped.
func TestOutcomesAreNeverDropped(t *testing.T) {
	r := reports{logger: slog.New(slog.DiscardHandler)}
	blocked, resume := make(chan struct{}), make(chan struct{})
	r.add(&report{call: func() {
		close(blocked)
		<-resume
	}})
	<-blocked
	positions, outcomes := 0, 0
	for range 2 * maxReports {
		r.add(&report{hook: func(context.Context, Event) { positions++ }})
		r.must(&report{hook: func(context.Context, Event) { outcomes++ }})
	}
	close(resume)
	r.finish()

	assert.Equal(t, 2*maxReports, outcomes)
	assert.Equal(t, maxReports/2, positions)
}

// A read that is under way when a place is lost, or the request ends, may move it.
func TestPlacesThatWereLeftReportNothing(t *testing.T) {
	positions := 0
	s, tm := requestOf(Hooks{Position: func(context.Context, Event) { positions++ }})
	_, q := start(t.Context(), s, door.Start{Name: "orders"})
	before := q.Joined(tm, 7, 3)
	q.Position(before, 0, 2)
	q.Rejoined(ErrLost)
	now := q.Joined(tm, 7, 3)
	q.Position(before, 0, 1)
	q.Ended(ErrClosed)
	q.Position(now, 0, 1)
	s.reports.finish()

	assert.Equal(t, 1, positions)
}
