// Package engine is what one Session does at its service, below all recipes: it joins queues,
// waits, grants, holds and releases. It makes the requests and has the contexts. Package queue, below
// it, has neither, and decides which entries hold. Package term has the service sessions. Package
// driver is the contract with the service: it defines entry, place, mark, record and watch.
//
// # The words
//
//	recipe    mutex, rwlock, semaphore or election: users call it, and it makes Requests
//	Request   what a recipe asks for in one queue: a name, a rule, options
//	attempt   one join and what follows; a request that loses its place makes another attempt
//	entries   what one attempt has at the service: an entry in each of its queues
//	grant     package queue reports that all entries of an attempt hold at one moment
//	Hold      granted entries that are bound to their term; the Hold ends with the term at the latest
//	Handle    what one caller has of a Hold; reentrant callers share the Hold
//	token     a number that rises with each join; by it a resource refuses writes of older holders
//	ledger    the record with the name of the last holder that has not released (robust mutex)
//	slot      the number that a semaphore gives to one hold, in a record of its own
//	term      one service session; at most one is live (package term)
//	deadline  when the term ends without a renewal; the service expires it later, by the margin
//	janitor   what repeats removals for a term in the background (term.Term.Clean)
//	Hooks     what reports a request to package session, which calls the hooks of users later
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
// If no entry is ahead, the answer to the join grants, and wait returns at once. Else package queue
// begins watches on entries ahead, and the caller blocks in wait:
//
//  1. The driver reports an event: an entry ahead is gone. For each service session the driver makes
//     one such call at a time, in a goroutine of its own. The callback of openQueue.Watch passes the
//     event to package queue, under queues.mu.
//  2. The queue applies the rule to what is left ahead. The entry holds if the rule lets it, and a
//     proof shows that it lives. When all entries of the attempt hold, the queue calls entries.Done,
//     which closes entries.done under the same mutex. If the event does not suffice, the queue asks
//     for a read (openQueue.Read), and applies the rule again to the answer.
//  3. The caller wakes. The queue also calls Done when it refuses an entry, which then can never hold.
//     entries.failed asks the group for the refusal, and has the entries leave if there is one.
//  4. take writes the ledger and the slot, on which later holders rely. It writes again if no server
//     answers; if the service refuses, the request fails and the entries leave. failed then looks
//     whether an entry was lost since the grant. If so, the request joins again.
//  5. newHold reads the clock under the term's mutex. Before the deadline it binds the Hold to the
//     term in the same step. After the deadline the request joins again, on the next term.
//  6. entries.holding looks for a lost entry once more, and ends the Hold if there is one. An entry
//     that is lost later ends the Hold by entries.Lost.
//
// A waiter also wakes when one of these happens. Of several, the first line decides:
//
//	its term ends            the request joins again on the next term; after Close it fails there
//	the caller's ctx ends    the request gives up, and the entries leave although they may hold
//	one of its entries ends  entries.Lost closes entries.lost, and the request joins again
//
// take gives up with ctx too, until it has written the records. After that the caller gets the Hold.
//
// entries.Waits has each entry watched that still waits 250 ms after its join. If an operator has
// deleted the entry before, that watch begins with Gone. The first waiter of this process in a queue
// also reads about once in each TTL, but at most every 10 s, because a connection can be silent
// without being closed (openQueue.reread).
//
// After a failed Read the reader pauses and reads again; if waiting cannot help, the queue refuses the
// entries. Watch returns no error: the driver sends it until the watch is armed or the session is over.
//
// # What a Hold rests on
//
//	all entries held by their rules, and lived, at one moment  package queue, before done is closed
//	no entry was known to be lost when the Hold was made       entries.failed, entries.holding
//	the deadline had not passed, and will end the Hold         newHold
//
// Each entry is watched from 50 ms after the grant on, if it was not before. So an event ends the Hold
// if an operator deletes an entry. The expiry of the service session needs no event: the deadline
// comes earlier, and ends the context of the Hold.
//
//	Unlock: Handle.Unlock > Hold.unlock > entries.leave --> driver.Session.Leave --> queue.Queue.Left
//
// An event grants the next entry of another process. The next one of this process is granted before
// the Leave is sent, if it is watched (queue.Entry.Passes), and else by the answer. It waits for the
// answer too if what depends on the entry that leaves may be done late: a ledger or a slot goes with
// the Leave, a guard is with the user, or the outcome of a record is not known (entries.tied).
//
// Up to queue.maxPassed holds can follow each other before the first answer comes. Each has its own
// entry, which keeps all others out. So it does not matter to a later hold whether the Leave of an
// earlier one is late, refused, or finds the entry gone. A Leave that finds the session over ends the
// term, and with it all of them.
//
// # What is left at the service
//
// The janitor removes what is left, until the removal is certain, or until the service session is
// over. With the service session everything ends but a name in a ledger (see ledger.go):
//
//	the case                                  the janitor removes
//	refused before the join, or not joined    nothing
//	the outcome of the join is unknown        what PendingError.Settle removes
//	refused later, gave up, or Close came     the entries and their records (entries.drop)
//	place lost, the request joins again       the other entries, all records (entries.drop)
//	term lost, the request joins again        nothing: the entries end with the service session
//	Hold released                             the entries, if no answer came or MinHold keeps them
//	Hold lost with an entry                   the other entries, the slot; no ledger (entries.abandon)
//	Hold lost with its term                   nothing: the entries end with the service session
//
// # Goroutines and mutexes
//
// A waiter has the goroutine of its caller and no other; an idle queue has none. A queue has one reader
// while entries want a read; the reader ends with the term at the latest. Each job of the janitor has a
// goroutine, which ends at the latest when the term is lost or, after Close, the session is closed.
//
// The goroutine that brings a fact calls queues.do: that of a caller, the driver, a reader, a job or a
// timer. do takes the fact in under queues.mu, which guards the queues of a term and the last fields of
// entries. Watches begin there, because driver.Session.Watch does not block. do then frees the mutex.
// In the same goroutine it runs what remains: the end of a Hold, a renewal, the start of a job. None of
// these waits for the service, so do does not delay the driver's next event.
//
// Hold.mu guards the handles. It is never held together with queues.mu. The term's mutex may be taken
// under either, and neither under the term's. Hooks.Moved runs under queues.mu and Hooks.Granted under
// the term's: both take only mutexes of session and report. Code of users runs under no mutex: report
// has a goroutine for the hooks and the logger, and context.AfterFunc starts one for each function.
package engine
