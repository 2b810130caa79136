package conn

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// outbox has the requests of a session from the call until the answer: those that wait, and those on a
// connection. Its mutex also guards the fields of a connection that are about its requests.
//
// The library accepts requests from any goroutine, and sends them in an order that it does not show. So the
// outbox gives it one request at a time: the next when the one before arrives at the socket. That costs no
// time, because the library encodes the next request while the socket sends.
type outbox struct {
	clock driver.Clock

	mu      sync.Mutex
	waiting []*flight   // in order
	on      *connection // on which those that wait are sent; nil while there is none
	over    error       // why no more requests are accepted; nil while they are
	xid     int32       // of the newest request that was sent
}

// add queues requests, in this order, behind those that wait.
func (o *outbox) add(fs ...*flight) {
	o.mu.Lock()
	over := o.over
	if over == nil {
		o.waiting = append(o.waiting, fs...)
		o.next(o.on)
	}
	o.mu.Unlock()
	for _, f := range fs {
		if over != nil {
			f.end(over)
			f.answered(Answer{}, f.err)
		}
	}
}

// addTo queues a request of one connection, before all requests that wait.
func (o *outbox) addTo(c *connection, f *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f.urgent, f.stage = true, stageSent
	c.urgent = append(c.urgent, f)
	o.next(c)
}

// use has the requests that wait sent on a connection.
func (o *outbox) use(c *connection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.on = c
	o.next(c)
}

// next gives the library of a connection the next request, unless it has one that has not arrived at the
// socket yet. The caller holds o.mu.
func (o *outbox) next(c *connection) {
	if c == nil || c.unsent != nil || isClosed(c.down) {
		return
	}
	var f *flight
	switch {
	case len(c.urgent) > 0:
		f, c.urgent[0] = c.urgent[0], nil
		c.urgent = c.urgent[1:]
	case o.on == c && len(o.waiting) > 0:
		f, o.waiting[0] = o.waiting[0], nil
		o.waiting = o.waiting[1:]
	default:
		return
	}
	f.stage, f.delivered = stageSent, make(chan struct{})
	c.unsent = f
	c.calls.Go(func() { o.exchange(c, f) })
}

// exchange gives a request to the library, and delivers the answer. If there is none, the connection fails, and
// takeBack decides about the request.
func (o *outbox) exchange(c *connection, f *flight) {
	defer close(f.delivered)
	a, err := f.call(c.lib)
	answered := true
	if err != nil {
		answered, err = serverError(err)
	}
	o.mu.Lock()
	switch {
	case c.unsent == f && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrClosing): // the library refuses it
		c.unsent = nil
		f.end(notSent(err))
		o.next(c)
	case !answered:
		o.mu.Unlock()
		c.fail(err)
		return
	default: // it is the first of those that are unanswered: see connection.replied
		c.unanswered[0] = nil
		c.unanswered, c.served, c.used = c.unanswered[1:], true, c.used || !f.urgent
		f.stage, a.Repeated, a.Err = stageEnded, f.lost, err
		if errors.Is(err, zk.ErrSessionExpired) {
			f.end(fmt.Errorf("%w: %w", driver.ErrSessionOver, err))
		}
	}
	o.mu.Unlock()
	if errors.Is(err, zk.ErrSessionExpired) {
		c.fail(err)
		c.expired(err)
	}
	f.answered(a, f.err)
}

// withdraw is called when a caller stops waiting, because of why. It returns the error of the call. Nil means that
// the request has another outcome, which is in its reply, or will be there at once.
func (o *outbox) withdraw(f *flight, why error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch f.stage {
	case stageWaiting:
		o.waiting = slices.DeleteFunc(o.waiting, func(w *flight) bool { return w == f })
		f.end(why)
		return f.err
	case stageSent:
		f.left = true
		return &UnknownError{Err: why}
	case stageEnded:
	}
	return nil
}

// takeBack is called when a connection has ended, for the requests that it had. Those that were not sent, and
// those that may be sent again, wait again, before all others, in their old order. The others end, and if they were
// sent, their outcome is unknown. A request whose caller does not wait any more ends too.
func (o *outbox) takeBack(c *connection) {
	why := fmt.Errorf("%w: the connection was lost: %w", driver.ErrUnavailable, c.cause)
	o.mu.Lock()
	o.on = nil
	var ended, back []*flight
	for i, f := range c.unanswered {
		if f.urgent {
			continue
		}
		f.lost = true
		switch {
		case i == 0 && errors.Is(c.cause, errSize): // that was the reply to the first
			f.end(fmt.Errorf("%w: %w", driver.ErrRefused, c.cause))
		case !f.again, f.left:
			f.end(why)
		default:
			f.stage = stageWaiting
			back = append(back, f)
			continue
		}
		ended = append(ended, f)
	}
	switch f := c.unsent; {
	case f == nil, f.urgent:
	case f.left:
		f.end(why)
		ended = append(ended, f)
	default:
		f.stage = stageWaiting
		back = append(back, f)
	}
	o.waiting = append(back, o.waiting...)
	o.mu.Unlock()
	for _, f := range ended {
		f.answered(Answer{}, f.err)
	}
}

// end ends the requests that wait, and all that come later.
func (o *outbox) end(err error) {
	o.mu.Lock()
	o.over = err
	all := o.waiting
	o.waiting = nil
	for _, f := range all {
		f.end(err)
	}
	o.mu.Unlock()
	for _, f := range all {
		f.answered(Answer{}, f.err)
	}
}
