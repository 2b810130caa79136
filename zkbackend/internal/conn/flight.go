package conn

import "github.com/fairlock/fairlock/session/driver"

// flight is a request in flight, or on its way to that.
type flight struct {
	Request
	again    bool                // if the connection is lost, it is sent on the next one
	answered func(Answer, error) // is called once, without a lock; never, if withdrawn before it was sent
	reply    chan reply          // gets what answered is called with, if that comes from newFlight
	err      error               // why there is no answer

	// Guarded by outbox.mu.
	stage     stage
	left      bool  // the caller does not wait any more
	urgent    bool  // it belongs to one connection, and ends with that: then answered is not called
	xid       int32 // its number in the session ...
	libXid    int32 // ... and on its connection, for the library
	sent      driver.Instant
	lost      bool          // it was on a connection that was lost, so it may have been carried out
	delivered chan struct{} // closed when the outcome of the library's call was delivered
}

// stage is where a flight is.
type stage int

const (
	stageWaiting stage = iota // in outbox.waiting
	stageSent                 // on a connection
	stageEnded
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
