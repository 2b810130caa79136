// Package memory has what this module's tests need of package membackend and users do not:
// other kinds of services, and a simulation of time and network.
package memory

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Options describe what kind of service a membackend.Store is. The zero value is like
// etcd, with answers that come at once. Every other option makes visible a freedom that
// the contract leaves to a backend, so that the layers above are tested against it.
type Options struct {
	// First makes the service report driver.Event.First: it keeps LeaveRequest.First for
	// the watches that are on the entry when it is deleted.
	First bool

	// Near makes the answer to a Join contain the nearest entries ahead, as many as it
	// asked for. Without it, the answer contains an entry only if it is the only one.
	Near bool

	// Terse makes answers contain nothing that the contract lets a backend leave out: no
	// entries ahead, no counts but that of a Join, and not what made a condition fail.
	Terse bool

	// Sequences makes the places of each queue numbers of its own, unlike tokens.
	Sequences bool

	// Stale makes each Read show the queue as it was that long ago, or as it was when
	// the session last learned something of it, if that was later.
	Stale time.Duration

	// Later makes a Read ask for marks, details and records in a second request, so that
	// they are of a later moment than the entries.
	Later bool

	// LateArmed delays the arming of watches that a session puts on its own entries.
	LateArmed time.Duration

	// Disorder, if not 0, makes the events of different targets arrive in any order. It
	// is the seed of that order, unless there is a Schedule, which decides it then.
	Disorder uint64

	// Spurious makes watches of anything but an entry report changes that are none.
	Spurious bool

	// Observed makes the service end no session by itself: a session ends when its TTL has
	// passed for a client that has had a watch on one of its queues for as long, and is
	// connected.
	Observed bool

	// MaxTTL is the longest TTL that the service accepts; 0: any.
	MaxTTL time.Duration

	// NoOptional makes the service refuse every optional Op, and every Detail of an
	// Update.
	NoOptional bool
}

// Door is package membackend as the tests of this module see it. S is its Store, which
// this package cannot import.
type Door[S any] struct {
	// New returns a service of a kind. Unless the schedule is nil, time, messages and
	// events go through it, for a simulation: it decides when they come, and whether.
	// Faults set on a Client have no effect then, except that Cut and Heal break watches.
	New func(o Options, s Schedule) *S

	// Entries returns a queue as the service has it, in order of place, and Records its
	// records. They send nothing, so no fault of a network touches them.
	Entries func(st *S, name string) []driver.Entry
	Records func(st *S, name string) map[string]driver.Record

	// PutForeign puts an entry of another program at the end of a queue. If leased, it
	// belongs to a session "x", which nothing here ends; otherwise it has none and is
	// marked Unleased. Both stay until they are deleted. If the queue has an entry with
	// that key already, PutForeign does nothing and returns false.
	PutForeign func(st *S, name, key string, leased bool) (driver.Ref, bool)

	// PutReader puts a reader of another program into the queue of that program's writer, at
	// the writer's place, as Curator does for a client that has the write lock and acquires
	// the read lock. It does nothing and returns false if the writer is gone. If the writer
	// has no place, the reader is put at the end of its queue. No key is used twice.
	PutReader func(st *S, writer driver.Ref, key string) (driver.Ref, bool)

	// Overwrite replaces the data of an entry, in its place and without touching its
	// session, as its owner could; nil writes the present data again, which to watches is
	// a change. It reports whether the entry was there.
	Overwrite func(st *S, name, key string, data []byte) bool

	// DeleteRecord deletes a record of a queue, as an operator could.
	DeleteRecord func(st *S, name, record string)

	// NewLife begins a new life of the service: all sessions end, with what is theirs, and for
	// the time of the quarantine no session is opened.
	NewLife func(st *S, quarantine time.Duration)
}

// Schedule takes over a Store made by [Door].New, for a simulation: it decides
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

	// Deliver delivers an event, after all that were delivered on the same lane before, or
	// never if the connection is lost. A lane is a session, or, with Options.Disorder,
	// the events of one target there. f returns at once. Deliver is called with the Store's
	// mutex held.
	Deliver(lane, what string, f func())
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
