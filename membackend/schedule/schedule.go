// Package schedule is the seam through which a simulation takes over a store of
// membackend: it decides when everything happens there that takes time, and
// what a network does to what is sent. The store and its clients stay as they
// are; only their timers, their messages and their events go through here.
package schedule

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Schedule stands for the time of a store.
type Schedule interface {
	// Now is the time of the service since the store was made.
	Now() time.Duration

	// After calls f when d has passed at the service. what tells such calls
	// apart, alike in every replay. It is called with the store's mutex held, as
	// are the methods below, so none of them may call back.
	After(what string, d time.Duration, f func())

	// Changed tells that something of a line is not what it was.
	Changed(line string)

	// Expired tells that a session has ended by the service's clock.
	Expired(session string)

	// Client returns what lies between the service and its next client.
	Client() Client
}

// Client stands for the clock and the network of one process.
type Client interface {
	driver.Clock

	// Send takes a request. It does not block, and calls back later.
	Send(r Request)

	// Tell brings something to a session, after all that it was told before; or
	// nothing any more, if the connection is lost.
	Tell(session, what string, f func())
}

// Request is one message to the service.
type Request struct {
	Ctx     context.Context //nolint:containedctx // its values say whose request it is; nil for nobody's
	Op      string
	Of      string // what it is about, alike in every replay
	Session string // that sends it; "" if none does

	// Launch says, when the message leaves the process, whether it is still
	// wanted. From then on the service may get it.
	Launch func() bool

	// Arrive acts at the service, and returns what brings the answer to the
	// process; nil if nobody waits for it, or if it comes by Tell. Without
	// reply nothing comes. It bears being called again.
	Arrive func(reply bool) (answer func())

	// Broke tells the process that its connection broke; nil if nobody cares.
	Broke func()
}
