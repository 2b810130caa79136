// Package driver is the contract between the lock toolkit and a service that keeps
// queues of entries: etcd, ZooKeeper, or a store in memory.
//
// Users never import it. The author of a backend implements Backend and Session, and
// runs the suite of session/drivertest, which checks every sentence below that can be
// checked from outside.
//
// # What a service must offer
//
// A queue is a name with entries in the order in which the service
// received them. (Identifiers and fields here call it a Line.) The contract rests on
// three properties of the service:
//
//   - Every new entry gets a place behind all that exist. So the set ahead of an entry
//     only ever shrinks, a stale read can delay a grant but never make a wrong one, and
//     reads need no quorum.
//   - An entry dies with the service session that made it, and not before, unless its
//     owner or an operator deletes it.
//   - The place numbers of the queue's entries, and the tokens made from them, rise
//     over the life of the store: over restarts, changes of leader and queues that were
//     empty for a year.
//
// # Records
//
// Some values belong to a queue and are no entries: its limit and its ledger, which
// stay until an operator deletes them; the slots that entries have claimed, the record
// that they were admitted where that needs a place of its own, the record of when they
// were granted, and the Meta of an entry whose value is for other programs, all of
// which go with their entry. A backend keeps these records where no program that shares
// the queue can take them for entries, and changes them in the transaction that changes
// the entry. Only its owner ever writes an entry.
//
// A yield request is therefore an entry in a queue of its own, next to that of the
// lock: see AskLine.
//
// # What a backend decides, and what it does not
//
// A backend knows how to put, read, watch and delete entries, and which acknowledged
// request proves that the service still has the session. It knows no recipe. It does
// not decide which entries hold (that is a rule in internal/queue), nor when a hold
// ends (that is the deadline in session): it reports proofs and losses through Config
// and leaves the conclusion to its caller.
//
// # Outcomes
//
// Every request has one of three outcomes, and its error must show which: done (nil),
// not done (any error but the next), or unknown (*PendingError, which carries the way
// to settle it). An unknown outcome is never reported as a guess. A backend retries by
// itself what it knows not to have been done, and settles by itself what it does not
// know, for as long as the context lets it; only then does it leave the rest to its
// caller. What was sent for a call takes no effect any more when a later call for the
// same thing (a value, a limit) has returned nil.
//
// # Time
//
// Every method that takes a context returns within a few milliseconds of the context's
// end, whatever the network does: a client library that cannot do this is called from a
// goroutine of the backend's. No method may wait without a bound when the context has
// none: requests carry a timeout per attempt and go on to another server.
//
// # Events
//
// The callbacks given to Session.Watch run one at a time for each Session, in the order
// of the store where Profile.Ordered is set. They must not block; they may call Watch
// and cancel, and nothing that waits: an answer may wait for them, see Session.Leave.
// An event is a hint: losing one may delay a grant until the next read, and must never
// make a wrong one.
//
// # Ends
//
// Session.Abandon stops proving and leaves everything at the service to expire;
// Session.Close ends the service session there, which passes the locks on at once. The
// difference is the time that a worker has to stop.
package driver
