// Package report calls what a user supplies, hooks and a logger, in the order in which
// things happened.
package report

import (
	"context"
	"log/slog"
	"math"
	"sync"
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
// The goroutine begins with a report and ends when none is left. After Finish there is no
// goroutine: Add drops the call, and Must makes it before it returns. Not handled: of several
// that call Must at the same time after Finish, one makes the calls of all, so the others
// can return a moment before theirs is made. No hold depends on it.
type Queue[E any] struct {
	logger *slog.Logger // the user's own
	least  slog.Level   // of the records that it gets

	mu       sync.Mutex
	waiting  []call[E] // in the order in which they are made; all behind those that run makes now
	dropped  int       // how many Add has dropped since run last took the calls that wait
	running  bool      // run is under way, so whatever is in waiting will be made
	idle     sync.Cond // of mu: running has become false
	finished bool      // by Finish, for ever
}

// call is the call of a hook.
type call[E any] struct {
	hook  func(context.Context, E)
	ctx   context.Context //nolint:containedctx // an argument of the call
	event E
}

// New returns a Queue for a user's logger. If l is nil, warnings and errors go to
// slog.Default.
func New[E any](l *slog.Logger) *Queue[E] {
	q := &Queue[E]{logger: l, least: math.MinInt}
	q.idle.L = &q.mu
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
	switch {
	case q.finished:
		q.mu.Unlock()
	case len(q.waiting) >= maxWaiting:
		q.dropped++
		q.mu.Unlock()
	default:
		q.put(call[E]{hook, ctx, e})
	}
}

// Must has a hook called, unless it is nil, however many calls wait.
func (q *Queue[E]) Must(ctx context.Context, hook func(context.Context, E), e E) {
	if hook == nil {
		return
	}
	q.mu.Lock()
	q.put(call[E]{hook, ctx, e})
}

// put adds a call, and sees to it that it is made. The caller holds q.mu, and put unlocks it.
func (q *Queue[E]) put(c call[E]) {
	q.waiting = append(q.waiting, c)
	begin := !q.running
	q.running = true
	finished := q.finished
	q.mu.Unlock()
	switch {
	case !begin:
	case finished:
		q.run()
	default:
		go q.run() // Finish waits for its end
	}
}

// run makes calls until none is left.
func (q *Queue[E]) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		batch, dropped := q.waiting, q.dropped
		q.waiting, q.dropped = nil, 0
		q.mu.Unlock()
		for i := range batch {
			batch[i].hook(batch[i].ctx, batch[i].event)
		}
		if dropped > 0 {
			q.logger.Warn("fairlock: the hooks or the logger are too slow: reports were dropped", "reports", dropped)
		}
		q.mu.Lock()
	}
	q.running = false
	q.idle.Broadcast()
}

// Flush returns when all earlier calls have returned.
func (q *Queue[E]) Flush() {
	done := make(chan struct{})
	q.mu.Lock()
	q.put(call[E]{hook: func(context.Context, E) { close(done) }})
	<-done
}

// Finish returns when all earlier calls have returned and the goroutine has ended. No other
// begins.
func (q *Queue[E]) Finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true // first, or a goroutine could begin while Finish waits
	for q.running {
		q.idle.Wait()
	}
}

// Logger returns a logger whose records are handled in turn with the hooks.
func (q *Queue[E]) Logger() *slog.Logger {
	return slog.New(handler{q.logger.Handler(), q.least, func(f func()) {
		var none E
		q.Add(context.Background(), func(context.Context, E) { f() }, none)
	}})
}
