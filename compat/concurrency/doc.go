// Package concurrency is a drop-in for etcd's package go.etcd.io/etcd/client/v3/concurrency. One
// import changes:
//
//	import "github.com/fairlock/fairlock/compat/concurrency"
//
// The keys of locks and elections stay below the same prefix, so programs with either import,
// "etcdctl lock" and "etcdctl elect" share one queue, in the order in which etcd received them.
// All that a program can call is here. STM is that of etcd.
//
// New code should use package etcdbackend with the recipes: there a loss ends the work by
// itself, and a session outlives its lease. This package is for code that is there already.
//
// # What differs, on purpose
//
//   - Ctx and Done of a Session end before another client can hold a lock of it, and not some time
//     after. Hold of a Mutex and of an Election has the context and the fencing token of the lock.
//   - A waiter ends with its session, at once. It survives compactions and lost connections, and
//     keeps its place.
//   - A Lock or Campaign whose context ends returns at once, also if etcd does not answer, and
//     leaves nothing behind.
//   - Unlock and Resign do not use their context: they wait for at most a second, and then the
//     session goes on in the background. They never delete the key of a later lock. Unlock of
//     a lock that was lost returns an error: ErrSessionExpired, or session.ErrLost.
//   - Two Mutexes of one session exclude each other, and so do two callers of one Mutex: a second
//     Lock waits for Unlock. TryLock returns ErrLocked there, and writes nothing. A program that
//     locks twice and unlocks once waits for itself.
//   - Errors are the values of etcd's package, or wrap them: compare with errors.Is.
//   - A session that has ended, also by Orphan, locks nothing more.
//   - WithLease resumes a leadership if it is the first in its queue. Everything else that an
//     earlier process has left on the lease is deleted when the Session first uses that queue.
//   - Two campaigns of one session for one election, at the same time, wait for each other.
//   - Unlock of a sync.Locker does not panic for a lock that was lost.
//   - Observe goes on after a lost connection or a compaction.
//   - Keys end with a dot and a number behind the lease, and the value of a Mutex is not empty.
//     Header of a Mutex is that of a read after the grant, which costs one round trip.
//
// # What cannot be kept
//
//   - A client whose KV, Watcher or Lease was replaced, as package namespace does, is refused.
//   - A name is UTF-8, not empty, of at most 512 bytes, and not that of a key of another lock. The
//     TTL is at least 2 s.
//   - The recipes below client/v3/experimental take etcd's own Session.
package concurrency
