package conn

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// outbox has the requests of a session from when they are asked for until they are answered: those
// that wait, and those on the connections. Its mutex also guards the fields of a connection that say
// so.
//
// The library takes requests from any goroutine, and sends them in an order that nobody can know. So
// it is given the next request only when the one before has come out of it at the socket. That costs
// no waiting: the next one goes in while the socket sends.
type outbox struct {
	clock driver.Clock

	mu      sync.Mutex
	waiting []*flight   // in order
	on      *connection // that takes those that wait; nil while there is none
	over    error       // why no more requests are taken; nil before
	cuts    int         // connections in a row that servers closed on a large request
}

// flight is one request on its way.
type flight struct {
	Request
	again    bool                // if the connection is lost, it is sent on the next one
	answered func(Answer, error) // is called once; nil: see late
	late     chan Answer         // gets the answer, or is closed when there is err; nil with answered
	err      error               // why there is no answer

	// Guarded by outbox.mu.
	stage     stage
	left      bool // its caller does not wait any more
	urgent    bool // it belongs to that one, and ends with it, without a word
	xid       int32
	size      int // of its packet
	sent      driver.Instant
	lost      bool          // a connection was lost with it, so it may have been carried out
	delivered chan struct{} // closed when what came from the library has been dealt with
}

// stage is where a flight is.
type stage int

const (
	stageWaiting stage = iota // in outbox.waiting
	stageSent                 // on a connection
	stageEnded
)

func newFlight(req Request, again bool) *flight {
	return &flight{Request: req, again: again, late: make(chan Answer, 1)}
}

// large reports whether it may be too long for a server.
func (f *flight) large() bool { return f.size > largeRequest }

// end ends a flight without an answer, because of err; the caller delivers it. The outcome is unknown
// if it may have been sent. The caller holds outbox.mu.
func (f *flight) end(err error) {
	f.stage, f.err = stageEnded, err
	if f.lost {
		f.err = &UnknownError{Late: f.late, Err: err}
	}
}

// deliver hands over the answer, or f.err. The caller holds no lock.
func (f *flight) deliver(a Answer) {
	switch {
	case f.answered != nil:
		f.answered(a, f.err)
	case f.err != nil:
		close(f.late)
	default:
		f.late <- a
	}
}

// add has requests sent, in this order.
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
			f.deliver(Answer{})
		}
	}
}

// addTo has a request sent on one connection, before all that wait.
func (o *outbox) addTo(c *connection, f *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f.urgent, f.stage = true, stageSent
	c.urgent = append(c.urgent, f)
	o.next(c)
}

// use lets a connection take what waits.
func (o *outbox) use(c *connection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.on = c
	o.next(c)
}

// next gives the library of a connection the next request, unless it has one that has not come out
// yet. The caller holds o.mu.
func (o *outbox) next(c *connection) {
	if c == nil || c.door != nil || isClosed(c.down) {
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
	c.door = f
	c.calls.Go(func() { o.fly(c, f) })
}

// fly gives a request to the library, and takes in what comes of it. If that is no answer, the
// flight stays with the connection, which has come to its end.
func (o *outbox) fly(c *connection, f *flight) {
	defer close(f.delivered)
	a, err := f.call(c.lib)
	out, err := outcomeOf(err)
	o.mu.Lock()
	switch {
	case c.door == f && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrClosing): // the library refuses it
		c.door = nil
		f.end(notSent(err))
		o.next(c)
	case out == lost:
		o.mu.Unlock()
		c.fail(err)
		return
	default: // it is the first that was sent: see connection.replied
		c.asked[0] = nil
		c.asked, c.served = c.asked[1:], true
		if f.large() {
			o.cuts = 0
		}
		f.stage, a.Repeated, a.Err = stageEnded, f.lost, err
	}
	o.mu.Unlock()
	if out == expired {
		f.err = fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
		c.fail(err)
		c.expired(err)
	}
	f.deliver(a)
}

// withdraw ends the waiting for a request, because of why. It returns the error that its caller gets, or nil if the
// request has ended, or is just ending, in another way.
func (o *outbox) withdraw(f *flight, why error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch f.stage {
	case stageWaiting:
		o.waiting = slices.DeleteFunc(o.waiting, func(w *flight) bool { return w == f })
		f.end(why)
		if f.late != nil {
			close(f.late) // also for UnknownError.Late
		}
		return f.err
	case stageSent:
		f.left = true
		return &UnknownError{Late: f.late, Err: why}
	case stageEnded:
	}
	return nil
}

// takeBack takes the requests of a connection back that has come to its end: what was not sent and
// what may be sent again waits, before all others, in the order of before.
func (o *outbox) takeBack(c *connection) {
	_, tooLong := errors.AsType[*sizeError](c.cause)
	why := fmt.Errorf("%w: the connection was lost: %w", driver.ErrUnavailable, c.cause)
	o.mu.Lock()
	o.on = nil
	if c.closedByServer() && slices.ContainsFunc(c.asked, (*flight).large) {
		o.cuts++
	}
	var ended, back []*flight
	for i, f := range c.asked {
		if f.urgent {
			continue
		}
		f.lost = true
		switch {
		case f.large() && o.cuts >= maxCuts:
			f.end(cutTooOften(f.size))
		case i == 0 && tooLong: // the answer to the first
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
	if f := c.door; f != nil && !f.urgent {
		f.stage = stageWaiting
		back = append(back, f)
	}
	o.waiting = append(back, o.waiting...)
	o.mu.Unlock()
	for _, f := range ended {
		f.deliver(Answer{})
	}
}

// end takes no more requests, and ends those that wait.
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
		f.deliver(Answer{})
	}
}
