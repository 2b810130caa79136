// Package memory is what the tests of this module need of package membackend, and users
// do not: other kinds of services, and a simulation of time and network.
package memory

import "github.com/fairlock/fairlock/session/driver"

// Options say what kind of service a membackend.Store is. The zero value is the kind that
// tells the least and numbers everything, as etcd does.
type Options struct {
	// Tells makes the service keep word of who gave back a hold, for watches
	// with [driver.WatchRequest.Tell]. There is one such word for each line: it
	// is lost when the next entry joins, and with the last entry of the line.
	// It is read when the watch has told the client that the entry is gone, and
	// f is told when the answer is there, so that it costs a round trip.
	Tells bool

	// NoRevs makes events and answers to Leave come without a revision, as
	// ZooKeeper's do. Then a watch on an entry that is gone already tells so, at
	// once and after a cut.
	NoRevs bool

	// Near makes a join tell who is nearest ahead, as many as it asks for, not
	// only who is first.
	Near bool

	// Moves makes Share put another entry, with another key, in the place of the
	// old one. Watchers of the old one are told that it is gone.
	Moves bool

	// Ends makes watches of driver.OfAdmitted tell of the end of every entry
	// ahead, not only of those that were admitted.
	Ends bool

	// Stale makes looks show the line as it was as long ago as they allow, as a
	// member of a cluster may that lags behind.
	Stale bool

	// OwnUnarmed withholds Armed from watches on own entries, which still tell
	// the end. A service does so while its events may come out of order.
	OwnUnarmed bool
}

// Door is package membackend as the tests of this module see it. S is its Store, which
// this package cannot import.
type Door[S any] struct {
	// NewWith returns a service of that kind.
	NewWith func(o Options) *S

	// NewScheduled is NewWith for a simulation: time, messages and events go through
	// the schedule, which decides when they come, and whether. Faults set on a Client
	// have no effect then, except that Cut and Heal break watches.
	NewScheduled func(o Options, s Schedule) *S

	// Entries returns a line as the service has it, in order of place. It sends
	// nothing, so no fault of a network touches it.
	Entries func(st *S, name string) []driver.Entry

	// PutForeign puts an entry of another program at the end of a line. If leased, it
	// belongs to a session "x", which nothing here ends; otherwise it has none and is
	// marked Unleased. Both stay until they are deleted. If the line has an entry with
	// that key already, PutForeign does nothing and returns false.
	PutForeign func(st *S, name, key string, leased bool) (driver.Ref, bool)

	// Overwrite gives an entry another value, in its place and without touching its
	// session, as its owner could. Any bytes will do: a broken value is one that
	// driver.DecodeMeta refuses. It reports whether the entry was there.
	Overwrite func(st *S, name, key string, value []byte) bool

	// Touch writes an entry's value again, unchanged. To watchers it is a change. It
	// reports whether the entry was there.
	Touch func(st *S, name, key string) bool
}
