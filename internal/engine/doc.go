// Package engine is what one Session does at its service, below all recipes: it joins queues,
// waits, grants, holds and releases. It has all goroutines, contexts and requests of that. Which
// entries hold is decided below it, in package queue, which has none of those; the service
// sessions are those of package term. Package session above it is what users see.
//
// # The words
//
//	term      one service session, with its deadline; at most one is live (package term)
//	Request   what a recipe asks for in one queue: a name, a rule, options
//	attempt   one join and what follows; a request that loses its place makes another one
//	entries   what one attempt has at the service: an entry in each of its queues
//	grant     package queue has found that all entries of an attempt hold at one moment
//	Hold      granted entries that are bound to their term; it ends with that at the latest
//	Handle    what one caller has of a Hold; reentrant callers share the Hold
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
// asked for watches, and the caller blocks in wait. What follows then:
//
//  1. The driver reports that an entry ahead is gone, in a goroutine of its own. The callback of
//     openQueue.Watch takes the mutex of the queues, and passes the event on to package queue.
//  2. The queue applies the rule to what is left ahead. If the entry may hold now, and is proved to
//     live, it holds. If it was the last one of the request, the queue calls entries.Done, which
//     closes done.
//  3. If the event does not suffice, the queue asks for a read (openQueue.Read), whose answer is the
//     next fact. In both cases wait returns when done is closed, and the caller goes on. It is
//     also closed when an entry is refused, because that can never hold: the request leaves then.
//  4. take writes the records that others rely on, the ledger and the slot. It then looks whether an
//     entry was lost since the grant: if so, the request joins again.
//  5. newHold reads the clock under the mutex of the term. If the deadline has not passed, the hold
//     is bound to the term in the same step. Else the request joins again, on the next term.
//
// # What a hold rests on
//
//	all entries held by their rules, and lived, at one moment  package queue, before done is closed
//	none was known to be lost when the hold was made           entries.failed, entries.holding
//	the deadline had not passed, and will end the hold         newHold
//
// From then on an entry goes with the release, by an operator, or with the service session. An event
// reports the second, once the entry is watched, which it is when the hold has lasted for a moment.
// The deadline passes before the third, by the margin, and ends the context.
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
//	its term ended                nothing: the service session expires; after Close as "gave up"
//	released                      nothing; an unacknowledged deletion is repeated
//	hold lost with its entry      the other entries (entries.abandon); a ledger keeps the name
//	hold lost with its term       nothing: the service session expires
//
// # Goroutines
//
// A caller waits in its own goroutine. Further there is at most one that reads, for each queue
// that needs a read (openQueue.Read), and one for each removal or update in the background, which
// the janitor of the term owns. The readers end with the term, and the jobs of the janitor too; a
// term that Close has ended keeps its jobs until its service session is closed. An idle queue and
// a waiter have none.
//
// # Mutexes
//
// queues.mu guards the queues of a term and nothing waits under it: what is to be sent is done
// when it is free (queues.do). Hold.mu guards the handles of a hold. Neither is taken under the
// other. A term's mutex may be taken under either, and neither under a term's: the hook of a grant,
// which is called under that, takes only its own.
package engine
