// Package session contains what all recipes share: the [Session] that a program opens
// once and keeps for months, the [Hold] that a recipe returns, its [Token], the [Entry]
// values of a queue, the hooks, and the errors that callers branch on.
//
// # A session and its terms
//
// A Session has one service session at a time: one etcd lease, or one ZooKeeper
// session. That is a term. When a term is lost, everything bound to it ends, and the
// next request opens a new one:
//
//	        open              the deadline passes, or the service
//	none ---------> live ---------------------------------------> over
//	  ^                       reports that the session is gone      |
//	  +-------------------------------------------------------------+
//	                   the next request opens a new one
//
// # The deadline
//
// The deadline of a term is
//
//	send time of the newest acknowledged renewal + TTL - margin
//
// less a thousandth of the TTL, by which the clocks may differ.
//
// At the deadline the session cancels the context of every Hold, before the service can
// grant the lock to another client. The term is never revived, even if an
// acknowledgement arrives late. Renewals stop, and the service session is left to
// expire, so that a worker has the whole margin to stop in. The service session is
// closed earlier only when every Hold on it has been unlocked.
//
// The clock is the backend's. On Linux it continues while the machine sleeps. A process
// that is stopped, or a machine whose clock stands still, cannot notice that time has
// passed: the token covers that case.
//
// # Calls without a deadline
//
// A call that waits for a lock, an election or a yield request goes on for as long as its
// context lets it, also while the service is unreachable. Every other call that sends a
// request returns an error that wraps [ErrUnavailable] after 5 s without an answer, if its
// context has no deadline: Open, Queue, Names, Evict, Ask, Asks, and the
// Leader, Limit and Resize of the recipes. With a deadline it goes on until then. A try, such
// as TryLock, never goes on for longer than 5 s. What changes a hold, such as Downgrade, ends
// with the hold.
package session
