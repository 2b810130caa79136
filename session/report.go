package session

import (
	"context"
	"log/slog"
	"sync"
)

// maxReports is how many reports wait for a hook or a logger that does not return,
// at most. Later ones are dropped and counted.
const maxReports = 10_000

// reports calls the hooks and the logger of a Session, one after the other, in the
// order in which things happened, in a goroutine of its own. So nothing that a user
// supplies runs between two things that must happen together, while a mutex is
// held, or where it could delay the end of a context, an Unlock or a renewal.
//
// The goroutine ends when nothing is left to be reported. Close waits for that, and
// drops what comes later: requests that wait in other goroutines may still log.
type reports struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	over    bool // nothing is delivered any more
	dropped int
	logger  *slog.Logger // the user's own
	wg      sync.WaitGroup
}

// add has a report delivered, unless too many wait.
func (r *reports) add(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if len(r.queue) >= maxReports {
		r.dropped++
		return
	}
	r.put(report)
}

// put has a report delivered. The caller holds r.mu.
func (r *reports) put(report func()) {
	r.queue = append(r.queue, report)
	if !r.running {
		r.running = true
		r.wg.Go(r.deliver)
	}
}

// deliver delivers reports until none is left.
func (r *reports) deliver() {
	for {
		r.mu.Lock()
		batch, dropped := r.queue, r.dropped
		r.queue, r.dropped = nil, 0
		r.running = len(batch) > 0
		r.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, report := range batch {
			report()
		}
		if dropped > 0 {
			r.logger.Warn("fairlock: the hooks or the logger are too slow: reports were dropped", "reports", dropped)
		}
	}
}

// finish is flush for the last time: the goroutine has ended when it returns, and no
// other begins.
func (r *reports) finish() {
	r.flush()
	r.mu.Lock()
	r.over = true // or a goroutine could begin while this waits
	r.mu.Unlock()
	r.wg.Wait()
}

// flush returns when everything that was added before has been delivered.
func (r *reports) flush() {
	done := make(chan struct{})
	r.mu.Lock()
	r.put(func() { close(done) })
	r.mu.Unlock()
	<-done
}

// through returns options whose hooks and logger only add reports.
func (r *reports) through(o Options) Options {
	r.logger = o.Logger
	o.Logger = slog.New(reportingHandler{r.add, o.Logger.Handler()})
	h := &o.Hooks
	for _, f := range []*func(Event){
		&h.Joined, &h.Position, &h.Granted, &h.Lost, &h.Released, &h.Rejoined, &h.Renewed, &h.SessionOpened, &h.SessionLost,
	} {
		if hook := *f; hook != nil {
			*f = func(e Event) { r.add(func() { hook(e) }) }
		}
	}
	return o
}

// reportingHandler is a slog.Handler that has each record handled as a report. It
// asks the user's handler nothing before that.
type reportingHandler struct {
	add func(report func()) // see reports
	h   slog.Handler
}

// Enabled reports whether a record of the level may be of interest: where there is
// no logger, none is.
func (l reportingHandler) Enabled(context.Context, slog.Level) bool {
	return l.h != slog.DiscardHandler
}

// Handle has the record handled.
func (l reportingHandler) Handle(ctx context.Context, rec slog.Record) error {
	rec = rec.Clone()
	l.add(func() {
		if l.h.Enabled(ctx, rec.Level) {
			_ = l.h.Handle(ctx, rec)
		}
	})
	return nil
}

// WithAttrs returns a handler with more attributes.
func (l reportingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return reportingHandler{l.add, l.h.WithAttrs(attrs)}
}

// WithGroup returns a handler with one more group.
func (l reportingHandler) WithGroup(name string) slog.Handler {
	return reportingHandler{l.add, l.h.WithGroup(name)}
}
