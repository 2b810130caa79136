package session

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
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

	e := h.g.subscribe()
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

// nextAsk reads the queues of yield requests in which something may have happened, and
// returns the first request that no caller of Asked has got yet.
func (h *Hold) nextAsk(ctx context.Context, e *subscription) (Ask, bool, error) {
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

// take reports whether a yield request is to be returned: no caller has got it yet, and the
// hold is not over. Requests are returned in the order of their tokens, which rise, so the
// newest token is all that the grant keeps.
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

// readAsk returns the yield request that an entry contains.
func readAsk(name string, e *driver.Entry) Ask {
	reason := strings.ToValidUTF8(string(e.Data[:min(len(e.Data), MaxReason)]), "")
	meta := door.MetaOf(e)
	return Ask{
		Name: name, Reason: reason, Session: e.Session,
		Host: meta.Host, PID: meta.PID, Label: meta.Label, Since: meta.Since,
	}
}

// subscription watches the queues of yield requests of a hold.
type subscription struct {
	clock driver.Clock
	again time.Duration // about how long it waits for an event before it reads without one
	news  []atomic.Bool // by lock: its queue is to be read
	wake  chan struct{}
	stop  []func() // of the watches
}

// subscribe watches the queues of yield requests. They are to be read at once, and again
// when the watches are armed, because no event reports what happened before.
func (g *grant) subscribe() *subscription {
	names := g.names()
	e := &subscription{
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

// wait blocks until an event comes, ctx ends, or it is time to read without an event. It
// rests after an event, so that a busy queue is not read all the time.
func (e *subscription) wait(ctx context.Context) {
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

func (e *subscription) close() {
	for _, stop := range e.stop {
		stop()
	}
}
