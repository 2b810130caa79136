package memory

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Schedule takes over a Store made by [Door].NewScheduled, for a simulation: it
// decides when everything happens that takes time, and what a network does to
// what is sent. The Store and its clients stay as they are; only their timers,
// their messages and their events go through here.
type Schedule interface {
	// Now is the time of the service since the Store was made.
	Now() time.Duration

	// After calls f when d has passed at the service. what tells such calls
	// apart, alike in every replay. It is called with the Store's mutex held, as
	// are the methods below, so none of them may call back.
	After(what string, d time.Duration, f func())

	// Changed tells that something of a line is not what it was.
	Changed(line string)

	// Expired tells that a session has ended by the service's clock.
	Expired(session string)

	// Wire returns what lies between the service and its next client.
	Wire() Wire
}

// Wire stands for the clock and the network of one process under a [Schedule].
type Wire interface {
	driver.Clock

	// Send takes a request. It does not block, and calls back later.
	Send(r Request)

	// Tell brings something to a session, after all that it was told before; or
	// nothing any more, if the connection is lost.
	Tell(session, what string, f func())
}

// Request is one message to the service on a [Wire].
type Request struct {
	Ctx     context.Context //nolint:containedctx // its values say whose request it is; nil for nobody's
	Op      fault.Op
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
