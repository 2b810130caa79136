// Package driver is the contract between the lock toolkit and a service that
// keeps lines of entries: etcd, ZooKeeper, or a store in memory.
//
// Users never import it. Who writes a backend implements [Backend] and
// [Session], and runs the suite of session/drivertest, which checks every
// sentence below that can be checked from outside.
//
// # What a service must offer
//
// A line is a name under which entries stand in the order in which the service
// received them. The contract rests on three properties of the service:
//
//   - Every new entry gets a place behind all that exist. So the set ahead of
//     an entry only ever shrinks, a stale look can delay a grant but never make
//     a wrong one, and looks need no quorum.
//   - An entry dies with the service session that made it, and not before,
//     unless its owner or an operator deletes it.
//   - The place numbers of the line's entries, and the tokens made from them,
//     rise over the life of the store: over restarts, changes of leader and
//     lines that were empty for a year.
//
// # What lies beside a line
//
// Some things belong to a line and are no entries: its limit and its ledger,
// which stay until somebody deletes them; the numbers that entries have claimed,
// the note that they were admitted where that needs a place of its own, the record
// of when they were granted, and what they say of themselves where their value is
// for others, all of which go with their entry. A backend keeps them where no program that shares the line can
// take them for entries, and changes them in the transaction that changes the
// entry. Nobody but its owner ever writes an entry.
//
// Who wants a holder to yield therefore stands in a line of his own beside that
// of the lock, see [AskLine].
//
// # What a backend decides, and what it does not
//
// A backend knows how to put, read, watch and delete entries, and which
// acknowledged request proves that the service still has the session. It knows
// no recipe. It does not decide who holds (that is a rule in internal/queue),
// nor when a hold ends (that is the deadline in session): it reports proofs and
// losses through [Config] and leaves the conclusion to its caller.
//
// # Outcomes
//
// Every request has one of three outcomes, and an error must tell which:
// done (nil), not done (any error but the next), or unknown ([*PendingError],
// which carries the way to settle it). An unknown outcome is never reported as
// a guess. A backend retries by itself what it knows not to have been done,
// and settles by itself what it does not know, for as long as the context lets
// it; only then does it hand the rest to its caller. What was sent for a call
// takes no effect any more when a later call for the same thing (a value, a
// limit) has returned nil.
//
// # Time
//
// Every method that takes a context returns within a few milliseconds of the
// context's end, whatever the network does: a client library that cannot do
// this is called from a goroutine of the backend's. No method may wait without
// a bound when the context has none: requests carry a timeout per attempt and
// go on to another server.
//
// # Events
//
// The callbacks given to [Session.Watch] run one at a time for each Session, in
// the order of the store where [Profile.Ordered] says so. They must not block;
// they may call Watch and cancel, and nothing that waits: an answer may wait for
// them, see [Session.Leave]. An event is a hint with a floor under it: losing one
// may delay a grant until the next look, and must never make a wrong one.
//
// # Ends
//
// [Session.Abandon] stops proving and leaves everything at the service to
// expire; [Session.Close] ends the service session there, which hands the locks
// on at once. The difference is the time that a worker has to stop.
package driver
