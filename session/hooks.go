package session

import (
	"time"
)

// Hooks are called when something has happened, one after the other and in the
// order in which it happened, in a goroutine of the Session's that also calls the
// Logger. They run a moment later than it happened, and nothing waits for them but
// Open and Session.Close, which return when they have. They should return soon: of
// more than 10 000 reports that wait for them and for the Logger, the Session drops
// the newest. They must not close the Session. Any may be nil.
type Hooks struct {
	// Joined: a request has got its place in a line. Event.Ahead is how many
	// stand before it.
	Joined func(Event)

	// Position: a waiting request has learned of a new place in the line. Not
	// every step is told: a look at the line is made when it is needed.
	Position func(Event)

	// Granted: a request holds.
	Granted func(Event)

	// Lost: a hold ended before its Unlock; Event.Err is the *LostError.
	Lost func(Event)

	// Released: a hold was given back. Event.Err is what Unlock returns.
	Released func(Event)

	// Rejoined: the place of a waiting request was lost, with its session or
	// by an operator's hand, and it goes to the end of the line. Event.Err
	// tells why.
	Rejoined func(Event)

	// Renewed: the service acknowledged a proof. Event.Left is the time to the
	// deadline.
	Renewed func(Event)

	// SessionOpened: a service session was opened, the first or a fresh one.
	SessionOpened func(Event)

	// SessionLost: a service session ended other than by Close; Event.Err is
	// the *LostError. The holds on it have been told before.
	SessionLost func(Event)
}

// Event is what a hook is given; fields that do not apply are zero.
type Event struct {
	Name    string        // the lock
	Kind    string        // the recipe
	Session string        // the service session
	Token   Token         // of the entry, from Joined on
	Ahead   int           // entries ahead
	Left    time.Duration // until the deadline
	Err     error
}

// fire calls a hook if there is one. What it is told costs nothing otherwise.
func fire(f func(Event), e func() Event) {
	if f != nil {
		f(e())
	}
}
