package memory

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Schedule takes over a Store made by [Door].NewScheduled, for a simulation: it decides
// when everything happens that takes time, and what a network does to what is sent. The
// Store and its clients stay as they are; only their timers, their messages and their
// events go through here.
type Schedule interface {
	// Now is the time of the service since the Store was made.
	Now() time.Duration

	// After calls f when d has passed at the service. what distinguishes such calls, in
	// the same way in every replay. It is called with the Store's mutex held, as are
	// the methods below, so none of them may call back.
	After(what string, d time.Duration, f func())

	// Changed is called when a queue or one of its records has changed.
	Changed(queue string)

	// Expired is called when a session has ended by the service's clock.
	Expired(session string)

	// Wire returns what connects the service and its next client.
	Wire() Wire
}

// Wire is the clock and the network of one process.
type Wire interface {
	driver.Clock

	// Send takes a request. It does not block. It is called without the Store's mutex.
	Send(r Request)

	// Tell delivers an event, after all that were delivered on the same lane before, or
	// never if the connection is lost. A lane is a session, or, with Options.Disorder,
	// the events of one target there. f returns at once. Tell is called with the Store's
	// mutex held.
	Tell(lane, what string, f func())
}

// Request is one message to the service on a Wire. Its functions are called without the
// Store's mutex.
type Request struct {
	Ctx     context.Context //nolint:containedctx // its values identify the caller; nil if there is none
	Op      fault.Op
	Of      string // its subject, the same in every replay
	Session string // of the sender; "" if none

	// Launch reports, when the message leaves the process, whether it is still wanted.
	// From then on the service may get it.
	Launch func() bool

	// Arrive acts at the service, and returns a function that brings the answer to the
	// process; nil if no caller waits for it. With reply false there is no answer. It
	// may be called more than once.
	Arrive func(reply bool) (answer func())

	// Broke is called in the process when its connection broke; it may be nil.
	Broke func()
}
