// Package driver is the contract between the lock toolkit and a service that keeps
// queues of entries: etcd, ZooKeeper, or a store in memory.
//
// Users never import it. The author of a backend implements Backend and Session, and
// runs the suite drivertest, which checks every sentence of this package that can be
// checked from outside.
//
// # What a service must offer
//
// A queue is a name with entries in the order in which the service received them. The
// contract rests on three properties of the service:
//
//   - Every new entry gets a place behind all that exist. So the set ahead of an entry
//     only ever shrinks, a stale read can delay a grant but never make a wrong one, and
//     reads need no quorum.
//   - An entry ends with the service session that made it, and not before, unless its
//     owner or an operator deletes it. Where the service ends no sessions, the entry of a
//     client that died stays while no other client looks, and the first one to come waits
//     one TTL.
//   - Places rise for as long as the queue has an entry; in one that was empty they may
//     begin anew. Tokens rise over the life of the store: over restarts, changes of
//     leader, and queues that were empty for a year.
//
// # Entries, marks and records
//
// An entry has a place, a mode, data of its owner, and marks. Only its owner ever
// writes an entry. A mark is a fact that the owner adds to its entry and never removes:
// Shared (a writer became a reader) and Admitted (a request for permits holds). Every
// watch of the entry is notified of a mark.
//
// A record is a small value next to a queue, with a version: the limit of a semaphore,
// the ledger of a robust mutex, a slot. A record stays until it is deleted, or, if it is
// bound, until the session that wrote it ends. A backend keeps records where no program
// that shares the queue can take them for entries. It knows nothing of their meaning;
// it changes them in the transaction that changes the entry, and only if their
// conditions hold.
//
// A yield request is an entry in a queue of its own, next to that of the lock: see
// AskQueue.
//
// # What a backend decides, and what it does not
//
// A backend puts, reads, watches and deletes entries and records, and knows which
// acknowledged request proves that the service still has the session. It knows no
// recipe. It does not decide which entries hold (that is a rule of the engine), nor when
// a hold ends (that is the deadline in package session).
//
// # Facts
//
// Every event is a fact that stays true: an entry is gone, an entry has a mark, an entry
// was first. Events of different entries have no order, and nothing depends on one. An
// event may be late, and after Lost some may be missing: that delays a grant until the
// next read, and must never make a wrong one.
//
// A watch on an entry begins with Armed or with Gone. Armed means that the entry is
// there now, and that every later change of it will be reported. So nothing has to be
// read after a watch is armed. "Now" is as in a read that begins with Watch: not older
// than any answer or event about the queue that this Session was given before.
//
// A session that ended at the service has no entries there: every backend reports each
// of them as Gone to every watch of it.
//
// # Services that end no sessions
//
// A database keeps the session of a client that died until another client deletes it. So
// the backend of each client observes the sessions of others that have entries in the
// queues which it watches, and less often all others. It counts the TTL of a session on its
// own clock, from the receipt of the first answer that showed the newest renewal. When that
// has passed, it ends the session, on the condition that it was not renewed since. It never
// ends its own sessions.
//
// # Lives
//
// Such a service can lose what it has acknowledged: a standby that lags becomes the
// primary, or an older copy is restored. From then on it has a new life. A session of the
// life before is over, also if the service still has its data, and every call of it returns
// an error that wraps ErrSessionOver. Its client learns that with the next answer, or by
// its deadline if it is cut off.
//
// Until Info.MaxTTL has passed, such a client may still trust its session. So the service
// is in a quarantine for that long: no entry is made, see Backend.Open. The quarantine
// belongs to the Backend: an Open that gives up does not begin it anew. After it, no
// entry and no bound record of the life before is there, and tokens go on rising. Other records may
// be there, older than they were, or lost: by Session.Since a client distinguishes those of the new life.
//
// # Reads
//
// Reads are consistent per queue: what Read returns is never older than any answer or
// event about the same queue that this Session was given before Read was called. The
// entries of a View are of one moment. Its records are of that moment or later, never
// earlier.
//
// # Outcomes
//
// Every request has one of three outcomes, and its error shows which: done (nil), not
// done, or unknown. Each method lists its errors. An unknown outcome is never reported
// as a guess. A backend repeats by itself what it knows not to have been done, and
// settles by itself what it does not know, for as long as the context lets it; only then
// does it leave the rest to its caller. What was sent for a call has no effect any more
// once a later call for the same thing has returned nil: for an entry's data, and for a
// record where the condition is At.
//
// The cause of a caller's context is in no error's chain: see ContextError.
//
// An optional part of a request (Op.Optional) never delays or fails the request: where
// the service refuses a request because of it, the backend sends the request again
// without it.
//
// The caller makes calls about one entry (Update, Leave) one at a time, except for a Leave
// with Any. That one may come at any moment, and the backend takes the entry for that of
// another owner.
//
// # Time
//
// Every method that takes a context returns within a few milliseconds of the context's
// end, whatever the network does: a client library that cannot do this is called from a
// goroutine of the backend's. Where the context has no end, only a service that does not
// answer makes a method wait: each attempt has a timeout, and the next one goes to another
// server.
package driver
