package engine

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Head yields the first entry of a queue, a zero one if it is empty: at once, and whenever
// the entry or its data changes. It ends with ctx, or with one error where waiting cannot
// help.
//
// What it yields, it reads; events only show when to. It watches the first entry, or the
// queue while that is empty, and reads again when the watch is armed, because what
// happened before that is not reported.
func (e *Engine) Head(ctx context.Context, name string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := e.CheckName(name); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		h := &head{e: e, name: name, news: newNews()}
		defer h.unwatch()
		for last := (*driver.Entry)(nil); ctx.Err() == nil; h.wait(ctx) {
			first, err := h.read(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(driver.Entry{}, err)
				return
			case last == nil || first.Ref != last.Ref || !bytes.Equal(first.Data, last.Data):
				last = &first
				if !yield(first, nil) {
					return
				}
			}
		}
	}
}

// head is what a Head knows. One goroutine uses it, that of the caller of Head; only the watch's
// callback, in a goroutine of the driver's, puts something into news. It ends with the loop of the
// caller, also if that breaks off: the deferred unwatch ends the watch.
type head struct {
	e    *Engine
	name string

	news news

	// cancel ends the watch; nil if nothing is watched. The watch is of term t, and on an entry,
	// or on the queue if on is zero.
	cancel func()
	t      *term.Term
	on     driver.Ref
}

// read reads the first entry, until that succeeds or cannot, and has it watched. The first read of a
// watch is a fresh one: what happened before the watch is armed is not reported, and is read when it
// is. A zero token means that the entry was deleted during the read, so there is another first one.
func (h *head) read(ctx context.Context) (driver.Entry, error) {
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	clock := h.e.info.Clock
	for {
		t, err := h.e.terms.Live(ctx)
		if err != nil {
			return driver.Entry{}, err //nolint:wrapcheck // it has waited as long as that helps
		}
		inner, cancel := t.Within(ctx) // another term is asked next
		first, err := readFirst(inner, t.Driver(), h.name, h.cancel == nil || h.t != t)
		cancel()
		switch {
		case err == nil && (first.Zero() || first.Token != 0 || first.Unreadable):
			h.watch(t, first.Ref)
			return first, nil
		case driver.Incurable(err), ctx.Err() != nil:
			return driver.Entry{}, err
		case err == nil: // it was deleted during the read
			driver.Sleep(ctx, clock, pause)
			backoff.Reset()
			continue
		}
		h.e.cfg.Logger.Debug("fairlock: cannot read the first entry", "name", h.name, "err", err)
		backoff.Sleep(ctx, clock)
	}
}

// watch has the entry watched, or the queue if there is none.
func (h *head) watch(t *term.Term, ref driver.Ref) {
	if h.cancel != nil && h.t == t && h.on == ref {
		return
	}
	h.unwatch()
	h.t, h.on = t, ref
	target := ref.Target()
	if ref.Zero() {
		target = driver.Target{Kind: driver.OfQueue, Queue: h.name}
	}
	h.cancel = t.Driver().Watch(target, func(ev driver.Event) {
		if ev.Kind == driver.Lost {
			return // it is armed again, or the term ends
		}
		h.news.come()
	})
}

func (h *head) unwatch() {
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// wait waits for news, for the end of the term, and at most as long as a waiter does that
// reads without an event.
func (h *head) wait(ctx context.Context) {
	ctx, cancel := h.t.Within(ctx)
	defer cancel()
	h.news.wait(ctx, h.e)
}

// news are what a reader waits for from one read to the next: an element shows that something may have
// changed since the last one.
type news chan struct{}

func newNews() news { return make(news, 1) }

// come is called by the callbacks of watches.
func (n news) come() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// pause keeps a busy queue from being read all the time.
const pause = 5 * time.Millisecond

// wait waits for news, and at most as long as a waiter does that reads without an event.
func (n news) wait(ctx context.Context, e *Engine) {
	within, cancel := driver.WithTimeout(ctx, e.info.Clock, e.rereadTime())
	defer cancel()
	select {
	case <-n:
		driver.Sleep(ctx, e.info.Clock, pause)
	case <-within.Done():
	}
}
