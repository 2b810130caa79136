package queue

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Head yields the first entry of a queue, a zero one if it is empty: at once, and whenever
// the entry or its data changes. It ends with ctx, or with one error where waiting cannot
// help.
//
// What it yields, it reads; events only show when to. It watches the first entry, or the
// queue while that is empty, and reads again when the watch is armed, because what
// happened before that is not reported.
func Head(ctx context.Context, s *session.Session, name string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := Core().Of(s).CheckName(name); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		h := &head{s: s, name: name, news: make(chan driver.EventKind, 1)}
		defer h.unwatch()
		for last := (*driver.Entry)(nil); ctx.Err() == nil; h.wait(ctx) {
			e, err := h.read(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(driver.Entry{}, err)
				return
			case last == nil || e.Ref != last.Ref || !bytes.Equal(e.Data, last.Data):
				if last = &e; !yield(e, nil) {
					return
				}
			}
		}
	}
}

// head is what a Head knows.
type head struct {
	s    *session.Session
	name string
	news chan driver.EventKind // something may have changed

	t      term       // that the watch is of
	on     driver.Ref // what it watches; zero: the queue
	cancel func()     // nil: nothing is watched
}

// read reads the first entry, until that succeeds or cannot, and has it watched.
func (h *head) read(ctx context.Context) (driver.Entry, error) {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		t, err := termOf(ctx, h.s)
		if err != nil {
			return driver.Entry{}, err // it has waited as long as that helps
		}
		inner, cancel := t.Within(ctx) // another term is asked next
		e, err := readFirst(inner, t.Driver(), h.name, h.cancel == nil || h.t != t)
		cancel()
		switch {
		case err == nil && (e.Zero() || e.Token != 0 || e.Unreadable):
			h.watch(t, e.Ref)
			return e, nil
		case driver.Incurable(err), ctx.Err() != nil:
			return driver.Entry{}, err
		case err == nil: // it was deleted during the read
			driver.Sleep(ctx, t.in.Clock(), pause)
			backoff = minBackoff / 2
			continue
		}
		Core().Of(h.s).Logger().Debug("fairlock: cannot read the first entry", "name", h.name, "err", err)
		driver.Sleep(ctx, t.in.Clock(), backoff)
	}
}

// watch has the entry watched, or the queue if there is none.
func (h *head) watch(t term, ref driver.Ref) {
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
		select {
		case h.news <- ev.Kind:
		default:
		}
	})
}

func (h *head) unwatch() {
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// pause keeps a busy queue from being read all the time.
const pause = 5 * time.Millisecond

// wait waits for news, for the end of the term, and at most as long as a waiter does that
// reads without an event.
func (h *head) wait(ctx context.Context) {
	clock := Core().Of(h.s).Clock()
	ctx, cancel := driver.WithTimeout(ctx, clock, rereadTime(h.s, clock))
	defer cancel()
	select {
	case <-h.news:
		driver.Sleep(ctx, clock, pause)
	case <-h.t.Context().Done():
	case <-ctx.Done():
	}
}
