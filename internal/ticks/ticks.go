// Package ticks finds the scheduled time of a run, for schedulers that do not pass it to
// the job. The schedule calls Plan with each time that it gives to the scheduler, and the
// run calls Take.
package ticks

import (
	"context"
	"slices"
	"sync"
	"time"
)

// kept is how many past ticks stay for runs that come late, or that the scheduler has
// skipped.
const kept = 32

// early is the part of the time between two ticks by which a run may precede its tick. A
// timer follows the monotonic clock, and the wall clock may be slowed down or set back
// meanwhile.
const early = 10

// Ticks are the planned times of one job. The zero value is ready to use, by several
// goroutines.
type Ticks struct {
	mu      sync.Mutex
	planned []tick // in the order of time, each once
}

type tick struct {
	at    time.Time
	from  time.Time // the earliest time of its run
	taken bool
}

// Plan records that the scheduler is to run the job at a time, the first one after another
// time. A time that is recorded already changes nothing, and neither does the zero time.
func (t *Ticks) Plan(after, at time.Time) {
	if at.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := slices.BinarySearchFunc(t.planned, at, func(p tick, at time.Time) int { return p.at.Compare(at) })
	if !found {
		t.planned = slices.Insert(t.planned, i, tick{at: at, from: at.Add(-at.Sub(after) / early)})
	}
}

// Take returns the tick of a run that has begun by now: the latest one that is due and that
// no other run has taken. So of two runs that begin in the wrong order each gets one of their
// two ticks. It returns false if there is none: then the scheduler has not begun this run.
func (t *Ticks) Take(now time.Time) (at time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := len(t.planned)
	for due > 0 && t.planned[due-1].from.After(now) {
		due--
	}
	for i := due - 1; i >= 0; i-- {
		if !t.planned[i].taken {
			t.planned[i].taken = true
			at, ok = t.planned[i].at, true
			break
		}
	}
	t.planned = slices.Delete(t.planned, 0, max(due-kept, 0))
	return at, ok
}

// Key returns the key of a tick for mutex.Once: the same in every time zone.
func Key(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// Next returns the first multiple of a duration after a time. Multiples are counted from the
// zero time, so that all processes have the same, whenever they were started.
func Next(every time.Duration, after time.Time) time.Time {
	return after.Truncate(every).Add(every)
}

type clockKey struct{}

// WithClock gives tests, through ctx, a clock that differs from that of the machine.
func WithClock(ctx context.Context, now func() time.Time) context.Context {
	return context.WithValue(ctx, clockKey{}, now)
}

// Clock returns the clock of WithClock, or that of the machine.
func Clock(ctx context.Context) func() time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now
	}
	return time.Now
}
