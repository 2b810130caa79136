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
//
// A request moves through it in this order, and never overtakes another one of its kind:
//
//	add     addTo
//	 |        |
//	waiting  urgent      of the session, and of one connection; urgent ones go first
//	 '---.----'
//	   unsent            next has given it to the library, which encodes it
//	     |
//	 unanswered          it has left at the socket: connection.written
//	     |
//	 answered            the reply has come: connection.replied, and then exchange
type outbox struct {
	clock driver.Clock

	mu sync.Mutex

	// waiting are the requests of the session that no connection has, in the order of the calls.
	waiting []*flight

	// on is the connection on which those that wait are sent. It is nil while there is none, and until
	// keepAlive has queued the first heartbeat of a new one.
	on *connection

	// over is why no more requests are accepted. It is nil while they are, and never reset.
	over error

	// xid is the number of the newest request that was sent. It rises over all connections of the
	// session, and begins at 0 again after 2^31: see connection.written.
	xid int32
}

// add queues requests, in this order, behind those that wait. After the end of the session it answers
// them at once.
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
// socket yet. It is called whenever that can have changed: a request came, or one arrived, or the
// connection is in use now. The caller holds o.mu.
func (o *outbox) next(c *connection) {
	if c == nil || c.unsent != nil || isClosed(c.down) {
		return
	}
	var f *flight
	switch {
	case len(c.urgent) > 0:
		f = c.urgent[0]
		c.urgent[0] = nil
		c.urgent = c.urgent[1:]
	case o.on == c && len(o.waiting) > 0:
		f = o.waiting[0]
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
	default:
		return
	}
	f.stage, f.delivered = stageSent, make(chan struct{})
	c.unsent = f
	c.calls.Go(func() { o.exchange(c, f) })
}

// exchange gives a request to the library, and delivers the answer. Each request has a goroutine for it.
//
//	the library's call returns                     what follows
//	an error, and the request has not left         the library refuses it, and it ends: not sent
//	that the connection has ended                  the connection fails, and takeBack decides
//	an error that does not show the outcome        the same
//	an answer, or a server's error                 it is delivered
//	a server's error, that the session expired     the request ends with it, and so does the session
//
// An error "does not show the outcome" if the server was in trouble, or the session was moved: see code.class.
func (o *outbox) exchange(c *connection, f *flight) {
	defer close(f.delivered)
	a, err := f.call(c.lib)
	answered := true
	if err != nil {
		answered, err = serverError(err)
	}
	o.mu.Lock()
	switch {
	case c.unsent == f && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrClosing):
		c.unsent = nil
		f.end(notSent(err))
		o.next(c)
	case !answered:
		o.mu.Unlock()
		c.fail(err)
		return
	default: // it is the first of those that are unanswered: see connection.replied
		c.unanswered[0] = nil
		c.unanswered = c.unanswered[1:]
		c.served = true
		c.used = c.used || !f.urgent
		f.stage = stageEnded
		a.Repeated = f.lost
		a.Err = err
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

// withdraw is called when a caller stops waiting, because of why. It returns the error of the call.
//
//	the request     its error
//	waits           why; unknown if it was lost with a connection before
//	was sent        unknown, because of why; its answer goes nowhere
//	has ended       nil: it has another outcome, which is in its reply, or will be there at once
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

// takeBack is called when a connection has ended, for the requests that it had. The first line that fits counts:
//
//	the request                                          what becomes of it
//	urgent                                               nothing: what it was for has ended
//	the first unanswered, and the reply was too long     it ends: refused, and unknown
//	sent, must not be sent again, or its caller left     it ends: unknown
//	sent                                                 it waits again
//	not sent, its caller left                            it ends
//	not sent                                             it waits again
//
// Those that wait again go before all others, in their old order: so the order of the calls survives the
// connection.
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
		case i == 0 && errors.Is(c.cause, errSize):
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
	f := c.unsent
	switch {
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
