package queue

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	next "github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// headOld tells who stands first in a line, a zero entry if nobody does: at once,
// and whenever that or the entry's value changes. It ends with ctx, or with one
// error where waiting cannot help.
//
// What it reads, it reads from the service; events only tell it when. It watches
// the first entry, or the line while that is empty, and reads again when the
// watch stands, since what happened before was not told.
func headOld(ctx context.Context, s *session.Session, name string) iter.Seq2[next.Entry, error] {
	return func(yield func(next.Entry, error) bool) {
		if err := Core().Of(s).CheckName(name); err != nil {
			yield(next.Entry{}, err)
			return
		}
		h := &head{s: s, name: name, news: make(chan struct{}, 1)}
		defer func() { h.unwatch() }()
		for told := false; ctx.Err() == nil; {
			e, err := h.read(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(next.Entry{}, err)
				return
			case !told || e.Ref != h.last.Ref || !bytes.Equal(e.Value, h.last.Value):
				told, h.last = true, e
				if !yield(door.EntryFromOld(e), nil) {
					return
				}
			}
			h.wait(ctx)
		}
	}
}

// head is one who looks at the head of a line.
type head struct {
	s    *session.Session
	name string
	last driver.Entry  // as it was told
	news chan struct{} // something may have changed

	t      term         // that the watch is of
	on     driver.Ref   // what it watches
	over   *atomic.Bool // it has told its last event
	cancel func()
}

// read reads the first entry, until that succeeds or cannot, and has it watched.
func (h *head) read(ctx context.Context) (driver.Entry, error) {
	rest := minRest
	for {
		t, err := termOf(ctx, h.s)
		if err != nil {
			return driver.Entry{}, err // it has waited as long as that helps
		}
		e, err := h.first(ctx, t)
		if err == nil {
			h.watch(t, e.Ref)
			return e, nil
		}
		if driver.Incurable(err) || ctx.Err() != nil {
			return driver.Entry{}, err
		}
		h.s.Options().Logger.Debug("fairlock: cannot read who is first", "name", h.name, "err", err)
		driver.Sleep(ctx, Core().Of(h.s).Clock(), rest)
		rest = min(2*rest, maxRest)
	}
}

// first reads the first entry once. It ends with the term too: what is asked for
// then is another term, which is told when the Session is closed.
func (h *head) first(ctx context.Context, t term) (driver.Entry, error) {
	ctx, cancel := t.Within(ctx)
	defer cancel()
	return t.first(ctx, h.name)
}

// watch has the entry watched, or the line if there is none.
func (h *head) watch(t term, ref driver.Ref) {
	if h.cancel != nil && h.t == t && h.on == ref && !h.over.Load() {
		return
	}
	h.unwatch()
	over := new(atomic.Bool)
	h.t, h.on, h.over = t, ref, over
	req := driver.WatchRequest{Ref: ref, Changes: true}
	if ref.Zero() {
		req = driver.WatchRequest{Ref: driver.Ref{Line: h.name}, Of: driver.OfLine}
	}
	h.cancel = t.Driver().Watch(req, func(ev driver.Event) {
		if ev.Kind == driver.Broken {
			return // it is armed again, or the term ends
		}
		over.Store(ev.Kind == driver.Gone) // read before it went, perhaps
		select {
		case h.news <- struct{}{}:
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

// pause keeps one who is told of much from reading all the time.
const pause = 5 * time.Millisecond

// wait waits for news, for the end of the term, and at most as long as one who
// waits for a lock does before it looks without being told.
func (h *head) wait(ctx context.Context) {
	d := max(h.s.Options().TTL, 10*time.Second)
	ctx, cancel := driver.WithTimeout(ctx, Core().Of(h.s).Clock(), d-d/4+driver.Jitter(Core().Of(h.s).Clock(), d/2))
	defer cancel()
	select {
	case <-h.news:
		driver.Sleep(ctx, Core().Of(h.s).Clock(), pause)
	case <-h.t.Context().Done():
	case <-ctx.Done():
	}
}

// setLimitOld gives a line another limit.
func setLimitOld(ctx context.Context, s *session.Session, name string, limit int64) error {
	if err := Core().Of(s).CheckName(name); err != nil {
		return err
	}
	for {
		t, err := termOf(ctx, s)
		if err != nil {
			return err
		}
		err = t.Driver().SetLimit(ctx, name, limit)
		if !errors.Is(err, driver.ErrSessionOver) || ctx.Err() != nil {
			return err
		}
		// The limit is no session's: another one can set it.
		t.Driver().Prove()
		driver.Sleep(ctx, t.in.Clock(), minRest)
	}
}
