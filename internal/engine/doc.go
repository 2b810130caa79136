// Package engine is what one Session does at its service, below all recipes: it joins queues,
// waits, grants, holds and releases. It has all goroutines, contexts and requests of that. Which
// entries hold is decided below it, in package queue, which has none of those; the service
// sessions are those of package term. Package session above it is what users see.
//
// # How a Lock goes
//
//	mutex.Lock
//	  session.Inside.Acquire   reentrance, hooks, public errors
//	    Engine.Acquire         what is wrong with the request, before anything is sent
//	      call.attempt         once, and again after a lost place:
//	        term.Terms.Live    the live term; opens one if need be
//	        newEntries         opens the queues
//	        entries.join       one transaction          ---------> driver.Session.Join
//	        entries.joined     the answer, as facts     ---------> queue.Group.Joined
//	                                                                 picture, rule, verdict
//	        entries.wait       until Done or Lost       <---------   grant
//	        entries.take       records, if there are any
//	          newHold          the deadline once more; bound to the term
//	  session.Hold             context, token, Unlock
//
// If no entry is ahead, the answer to the join grants, and wait returns at once. Else the queue has
// asked for watches. Their events come back by queues.do, and one of them grants: the last lines
// are the same.
//
//	Unlock: Handle.Unlock > Hold.unlock > entries.leave --> driver.Session.Leave --> queue.Queue.Left
//
// The answer to that grants the next entry of this process, if there is one, and the service's
// event the next one elsewhere.
//
// # What is left behind
//
// A request ends in one of these ways. What is left at the service then is removed in the
// background by the term (term.Term.Clean), until that is certain, or until the service session is
// over, and everything ends with it but the names in ledgers:
//
//	refused before the join       nothing
//	join failed                   nothing
//	join with unknown outcome     PendingError.Settle
//	gave up while it waited       the entries and their records (entries.drop)
//	lost its place                the other entries, and all records (entries.drop)
//	released                      nothing; an unacknowledged deletion is repeated
//	hold lost with its entry      the other entries (entries.abandon); a ledger keeps the name
//	hold lost with its term       nothing: the service session expires
//
// # Goroutines
//
// A caller waits in its own goroutine. Further there is at most one that reads, for each queue
// that needs a read (openQueue.Read), and one for each removal or update in the background, which
// the janitor of the term owns. All end with the term. An idle queue and a waiter have none.
//
// # Mutexes
//
// queues.mu guards the queues of a term and nothing waits under it: what is to be sent is done
// when it is free (queues.do). Hold.mu guards the handles of a hold. A term's mutex may be taken
// under either; neither is taken under a term's, but for the hooks of a grant.
package engine
