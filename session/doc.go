// Package session holds what recipes and users share: the [Session] that a
// program opens once and keeps for months, the [Hold] that a recipe hands out,
// its [Token], and the errors that callers branch on.
//
// # A session and its terms
//
// A Session has one service session under it at a time: one etcd lease, one
// ZooKeeper session. That is a term. When a term is lost, everything bound to
// it ends, and the next request opens a fresh one:
//
//	        open             no proof until the deadline, or the service
//	none ---------> live ------------------------------------------> over
//	  ^                          says that it is gone                  |
//	  +----------------------------------------------------------------+
//	                     the next request opens a fresh one
//
// # The deadline
//
// A term is believed in until
//
//	send time of the newest acknowledged proof + TTL - margin
//
// and not a moment longer. At the deadline the context of every Hold is
// cancelled, before the service can give the lock to anyone else. The term is
// never revived afterwards, even if an acknowledgement comes in late; renewals
// stop, and the service session is left to expire, so that a worker really has
// the margin to stop in. It is closed early only when every Hold on it has been
// unlocked.
//
// The clock is the backend's. On Linux it goes on while the machine sleeps. A
// process that is stopped, or a machine whose clock stands still, cannot notice
// that time has passed: that is what the token is for.
package session
