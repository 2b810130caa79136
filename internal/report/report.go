// Package report calls what a user supplies, hooks and a logger, in the order in which
// things happened.
package report

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// maxWaiting is how many reports wait, at most, for a hook or a logger that does not
// return. Later ones are dropped and counted.
const maxWaiting = 10_000

// Queue calls hooks and a logger one after the other, in a goroutine of its own. E is what
// hooks are called with. A Queue is safe for concurrent use.
//
// So nothing that a user supplies runs between two things that must happen together, while
// a mutex is held, or where it could delay the end of a context, an Unlock or a renewal.
//
// To wake the goroutine for each report would cost a lock's cycle more than most hooks do.
// So it rests after it has made calls, and then makes those of all reports that came
// meanwhile. Flush and Finish end its rest.
//
// The goroutine ends when nothing is left to report, and Finish waits for that. After
// Finish, Must calls the hook in its caller's goroutine, and Add drops the call.
type Queue[E any] struct {
	logger *slog.Logger // the user's own
	least  slog.Level   // of the records that it gets
	rest   time.Duration
	wake   chan struct{} // ends a rest; has room for one

	mu       sync.Mutex
	waiting  []call[E]
	spare    []call[E] // the array of calls that were made
	running  bool
	finished bool // the goroutine makes no more calls
	dropped  int
	wg       sync.WaitGroup
	late     sync.Mutex // is held while a caller calls a hook itself
}

// call is the call of a hook.
type call[E any] struct {
	hook  func(context.Context, E)
	ctx   context.Context //nolint:containedctx // an argument of the call
	event E
}

// New returns a Queue for a user's logger, whose goroutine rests that long. If l is nil,
// warnings and errors go to slog.Default.
func New[E any](l *slog.Logger, rest time.Duration) *Queue[E] {
	q := &Queue[E]{logger: l, least: math.MinInt, rest: rest, wake: make(chan struct{}, 1)}
	if l == nil {
		q.logger, q.least = slog.Default(), slog.LevelWarn
	}
	return q
}

// Add has a hook called, unless it is nil or too many calls wait.
func (q *Queue[E]) Add(ctx context.Context, hook func(context.Context, E), e E) {
	if hook == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.finished:
	case len(q.waiting) >= maxWaiting:
		q.dropped++
	default:
		q.put(call[E]{hook, ctx, e})
	}
}

// Must has a hook called, unless it is nil, however many calls wait. After Finish, Must
// calls the hook itself.
func (q *Queue[E]) Must(ctx context.Context, hook func(context.Context, E), e E) {
	if hook == nil {
		return
	}
	q.mu.Lock()
	if !q.finished {
		q.put(call[E]{hook, ctx, e})
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.wg.Wait()
	q.late.Lock()
	defer q.late.Unlock()
	hook(ctx, e)
}

// put adds a call. The caller holds q.mu.
func (q *Queue[E]) put(c call[E]) {
	q.waiting = append(q.waiting, c)
	if !q.running {
		q.running = true
		q.wg.Go(q.run)
	}
}

// maxSpare is the size, in calls, up to which an array is kept to be used again.
const maxSpare = 500

// run makes calls until none is left after a rest.
func (q *Queue[E]) run() {
	var batch []call[E]
	for {
		q.mu.Lock()
		if clear(batch); cap(batch) > 0 && cap(batch) <= maxSpare {
			q.spare = batch[:0]
		}
		if q.running = len(q.waiting) > 0; !q.running {
			q.mu.Unlock()
			return
		}
		dropped := q.dropped
		batch, q.waiting, q.spare, q.dropped = q.waiting, q.spare, nil, 0
		q.mu.Unlock()
		for i := range batch {
			batch[i].hook(batch[i].ctx, batch[i].event)
		}
		if dropped > 0 {
			q.logger.Warn("fairlock: the hooks or the logger are too slow: reports were dropped", "reports", dropped)
		}
		if q.rest > 0 {
			select {
			case <-q.wake:
			case <-time.After(q.rest):
			}
		}
	}
}

// stir ends a rest. If there is none, the next one does not begin.
func (q *Queue[E]) stir() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Flush returns when all earlier calls have returned.
func (q *Queue[E]) Flush() {
	done := make(chan struct{})
	q.mu.Lock()
	q.put(call[E]{hook: func(context.Context, E) { close(done) }})
	q.mu.Unlock()
	q.stir()
	<-done
}

// Finish is Flush for the last time: when it returns, the goroutine has ended, and no other
// begins.
func (q *Queue[E]) Finish() {
	q.Flush()
	q.mu.Lock()
	q.finished = true // first, or a goroutine could begin while Finish waits
	q.mu.Unlock()
	q.stir()
	q.wg.Wait()
}

// Logger returns a logger whose records are handled in turn with the hooks.
func (q *Queue[E]) Logger() *slog.Logger {
	return slog.New(handler{q.logger.Handler(), q.least, func(f func()) {
		var none E
		q.Add(context.Background(), func(context.Context, E) { f() }, none)
	}})
}
