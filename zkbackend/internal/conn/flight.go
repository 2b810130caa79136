package conn

import "github.com/fairlock/fairlock/session/driver"

// flight is a request in flight, or on its way to that.
//
//	            next                    exchange
//	waiting ------------> sent ----------------------> ended
//	   ^                   |                             ^
//	   '--- takeBack ------'---------- takeBack ---------'
//
// takeBack is called when the connection is lost; it has the table of what becomes of each request.
// A caller that does not wait any more ends a request that waits, and leaves one that was sent to its
// fate: the server may carry it out.
type flight struct {
	Request

	// again: if the connection is lost, it is sent on the next one. Never changed.
	again bool

	// answered is called with the outcome, without a lock. It is called once, or never: if the request
	// was withdrawn before it was sent, or is urgent and lost its connection.
	answered func(Answer, error)

	// reply gets what answered is called with, if that comes from newFlight. It has room for it, so the
	// outcome of a caller that does not wait any more blocks nothing.
	reply chan reply

	// err is why there is no answer. Set when stage becomes stageEnded, and never changed then.
	err error

	// The rest is guarded by outbox.mu.

	// stage is where the request is.
	stage stage

	// left: the caller does not wait any more. Never reset.
	left bool

	// urgent: it belongs to one connection, and ends with that. Never changed.
	urgent bool

	// xid is its number in the session, and libXid that on its connection, by which the library knows it.
	// Both are set each time that it is sent.
	xid    int32
	libXid int32

	// sent is when it was handed to the socket last. A heartbeat proves no later time than that.
	sent driver.Instant

	// lost: it was on a connection that was lost, so it may have been carried out. Never reset.
	lost bool

	// delivered is closed when the outcome of the library's call was delivered. Made anew each time that
	// the library gets the request.
	delivered chan struct{}
}

// stage is where a flight is.
type stage int

const (
	stageWaiting stage = iota // in outbox.waiting
	stageSent                 // in one of the lists of a connection: urgent, unsent or unanswered
	stageEnded                // its outcome is known, or never will be
)

// reply is what became of a request: an answer, or why there is none.
type reply struct {
	Answer
	err error
}

func newFlight(req Request, again bool) *flight {
	c := make(chan reply, 1)
	return &flight{Request: req, again: again, reply: c, answered: func(a Answer, err error) { c <- reply{a, err} }}
}

// end ends a flight without an answer, because of err. The outcome is unknown if it may have been sent.
// The caller holds outbox.mu, and calls answered without it.
func (f *flight) end(err error) {
	f.stage, f.err = stageEnded, err
	if f.lost {
		f.err = &UnknownError{Err: err}
	}
}
