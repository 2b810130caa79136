package session

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/next/driver"
)

// Asked blocks until there is a yield request for one of the hold's locks (see
// Session.Ask), and returns it. It returns immediately if there is one that this hold
// has not returned before, the oldest first, whatever its age. Each request is returned
// once, to one caller, among all handles of a reentrant hold. Nothing ends by itself:
// the holder may continue, and the request may have been withdrawn meanwhile.
//
// Asked returns the cause of ctx when ctx ends; ErrLost or ErrUnlocked when the hold is
// over, and then no further requests; and ErrDenied or ErrRefused where waiting cannot
// help. It keeps waiting while the service is unreachable.
//
// Only a call of Asked has a cost: one watch for each name, one read at the beginning,
// one for each request that is sent or withdrawn, and one now and then. A hold that
// never calls it sends nothing. Asked is safe for concurrent use.
func (h *Hold) Asked(ctx context.Context) (Ask, error) {
	a, err := h.waitAsked(ctx)
	if err != nil {
		return Ask{}, fmt.Errorf("%s: wait for a yield request for %q: %w", h.g.Kind, h.g.Name, err)
	}
	return a, nil
}

func (h *Hold) waitAsked(ctx context.Context) (Ask, error) {
	if err := h.over(); err != nil {
		return Ask{}, err // and nothing is sent
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })() //nolint:contextcheck // it ends with both

	e := h.g.listen()
	defer e.close()
	for rest := minRest; ; {
		a, ok, err := h.nextAsk(ctx, e)
		over := h.over()
		switch {
		case ok:
			return a, nil
		case over != nil:
			return Ask{}, over
		case ctx.Err() != nil:
			return Ask{}, context.Cause(ctx)
		case err == nil:
			rest = minRest
			e.wait(ctx)
		case driver.Incurable(err):
			return Ask{}, err
		default:
			h.g.t.s.opts.Logger.Debug("fairlock: cannot read the yield requests", "name", h.g.Name, "err", err)
			driver.Sleep(ctx, h.g.t.s.clock, rest)
			rest = min(2*rest, maxRest)
		}
	}
}

// over says how the hold ended, or that it does now; nil if it goes on. It reads the
// clock, and so is right also where a timer is late.
func (h *Hold) over() error {
	left := h.g.t.Left()
	h.g.mu.Lock()
	err := h.overErr()
	h.g.mu.Unlock()
	if err == nil && left == 0 { // it is being told at this moment
		err = h.g.lostNow()
	}
	return err
}

// nextAsk reads the lines of asks in which something may have happened, and takes
// the first ask that nobody was told of.
func (h *Hold) nextAsk(ctx context.Context, e *ear) (Ask, bool, error) {
	g := h.g
	for i, name := range g.names() {
		if !e.news[i].Swap(false) {
			continue
		}
		v, err := g.t.drv.Read(ctx, asksOf(name))
		if err != nil {
			e.news[i].Store(true)
			return Ask{}, false, err //nolint:wrapcheck // the backend's own error
		}
		for j := range v.Entries {
			if en := &v.Entries[j]; isAsk(en) && h.take(name, en.Token) {
				return readAsk(name, en), true, nil
			}
		}
	}
	return Ask{}, false, nil
}

// take notes that an ask is being told, unless it was before or the hold is over.
// Asks are told in the order of their tokens, which rise; so the newest is all that
// must be remembered.
func (h *Hold) take(name string, token int64) bool {
	if h.over() != nil {
		return false
	}
	g := h.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if token <= g.asked[name] {
		return false
	}
	if g.asked == nil {
		g.asked = make(map[string]int64, 1)
	}
	g.asked[name] = token
	return true
}

// asksOf requests the yield requests for a lock.
func asksOf(name string) driver.ReadRequest {
	return driver.ReadRequest{Queue: driver.AskQueue(name), Detail: true}
}

// isAsk reports whether an entry in a queue of yield requests is one. What a foreign
// program has put there is not, nor what would never go away. An entry without a token
// went while the queue was read.
func isAsk(e *driver.Entry) bool { return !e.Foreign && !e.Unleased && e.Valued && e.Token != 0 }

// readAsk makes an ask of whatever an entry says.
func readAsk(name string, e *driver.Entry) Ask {
	reason := strings.ToValidUTF8(string(e.Data[:min(len(e.Data), MaxReason)]), "")
	meta := door.MetaOf(e)
	return Ask{
		Name: name, Reason: reason, Session: e.Session,
		Host: meta.Host, PID: meta.PID, Label: meta.Label, Since: meta.Since,
	}
}

// ear is told when something happens in the lines of asks of a hold.
type ear struct {
	clock driver.Clock
	again time.Duration // when to look without having been told
	news  []atomic.Bool // by the number of the name: the line is to be read
	wake  chan struct{}
	stop  []func()
}

// listen has the lines of asks watched. They are to be read at once, and again when
// the watches stand, since what happened before is not told.
func (g *grant) listen() *ear {
	names := g.names()
	e := &ear{
		clock: g.t.s.clock, again: max(g.t.s.opts.TTL, 10*time.Second),
		news: make([]atomic.Bool, len(names)), wake: make(chan struct{}, 1),
	}
	for i, name := range names {
		e.news[i].Store(true)
		target := driver.Target{Kind: driver.OfQueue, Queue: driver.AskQueue(name)}
		e.stop = append(e.stop, g.t.drv.Watch(target, func(ev driver.Event) {
			if ev.Kind == driver.Lost {
				return // it is armed again, or the hold ends
			}
			e.news[i].Store(true)
			select {
			case e.wake <- struct{}{}:
			default:
			}
		}))
	}
	return e
}

// wait waits for news, for the end of ctx, and at most for as long as anybody waits
// here before he looks without being told. Who is told of much is kept from reading
// all the time.
func (e *ear) wait(ctx context.Context) {
	inner, cancel := driver.WithTimeout(ctx, e.clock, e.again-e.again/4+driver.Jitter(e.clock, e.again/2))
	defer cancel()
	select {
	case <-e.wake:
		driver.Sleep(ctx, e.clock, minRest)
	case <-inner.Done():
		for i := range e.news {
			e.news[i].Store(true)
		}
	}
}

func (e *ear) close() {
	for _, stop := range e.stop {
		stop()
	}
}
