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
// The goroutine ends when nothing is left to be reported. Close waits for that.
// Requests that wait in other goroutines may end later: their callers call the hooks
// themselves then, and what they log is dropped.
type reports struct {
	mu      sync.Mutex
	queue   []report
	spare   []report // the array of a queue that was delivered
	running bool
	over    bool // nothing is delivered any more
	dropped int
	logger  *slog.Logger // the user's own
	wg      sync.WaitGroup
	late    sync.Mutex // is held while a caller calls a hook itself
}

// report is a call of a hook, or of anything else.
type report struct {
	hook    func(context.Context, Event)
	session func(Event)
	call    func()
	ctx     context.Context //nolint:containedctx // an argument of the call
	event   Event
}

func (r *report) deliver() {
	switch {
	case r.hook != nil:
		r.hook(r.ctx, r.event)
	case r.session != nil:
		r.session(r.event)
	case r.call != nil:
		r.call()
	}
}

// empty reports whether there is nobody to be called.
func (r *report) empty() bool { return r.hook == nil && r.session == nil && r.call == nil }

// add has a report delivered, unless too many wait.
func (r *reports) add(rep *report) {
	if rep.empty() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if len(r.queue) >= maxReports {
		r.dropped++
		return
	}
	r.put(rep)
}

// must has a report delivered, whatever waits and whatever is over. After the end it
// calls the hook itself.
func (r *reports) must(rep *report) {
	if rep.empty() {
		return
	}
	r.mu.Lock()
	if !r.over {
		r.put(rep)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	r.wg.Wait()
	r.late.Lock()
	defer r.late.Unlock()
	rep.deliver()
}

// put has a report delivered. The caller holds r.mu.
func (r *reports) put(rep *report) {
	r.queue = append(r.queue, *rep)
	if !r.running {
		r.running = true
		r.wg.Go(r.deliver)
	}
}

// maxSpare is how many reports a queue has room for, at most, when it is kept to be
// used again.
const maxSpare = 500

// deliver delivers reports until none is left.
func (r *reports) deliver() {
	var batch []report
	for {
		r.mu.Lock()
		if clear(batch); cap(batch) > 0 && cap(batch) <= maxSpare {
			r.spare = batch[:0]
		}
		if r.running = len(r.queue) > 0; !r.running {
			r.mu.Unlock()
			return
		}
		dropped := r.dropped
		batch, r.queue, r.spare, r.dropped = r.queue, r.spare, nil, 0
		r.mu.Unlock()
		for i := range batch {
			batch[i].deliver()
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
	r.put(&report{call: func() { close(done) }})
	r.mu.Unlock()
	<-done
}

// through returns options whose logger only adds reports.
func (r *reports) through(o Options) Options {
	r.logger = o.Logger
	o.Logger = slog.New(reportingHandler{r.add, o.Logger.Handler()})
	return o
}

// reportingHandler is a slog.Handler that has each record handled as a report. It
// asks the user's handler nothing before that.
type reportingHandler struct {
	add func(*report) // see reports
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
	l.add(&report{call: func() {
		if l.h.Enabled(ctx, rec.Level) {
			_ = l.h.Handle(ctx, rec)
		}
	}})
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
