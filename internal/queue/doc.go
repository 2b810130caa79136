// Package queue decides which of our entries hold. It keeps one picture of what is known of each
// queue, takes in facts, and applies the rules of package rule. It has no context, no mutex, no
// goroutine and no request: it asks Outside for those, and package engine is that outside.
//
// # How a waiter is granted
//
// Facts change the picture, a rule decides for those of our entries that a fact can concern, and
// the watches follow what the verdicts wait for:
//
//	a Join, a Read     an event     an own Leave, Update
//	      |               |                    |
//	      v               v                    v
//	   joined,          event             Left, Marked
//	   Learned            |                    |
//	      +---------------+---------+----------+
//	                                v
//	                   picture: entries, marks, gaps      picture.go
//	                                |
//	                                v
//	             judge: the rule's verdict, and a proof    decide.go
//	                                |
//	        +-----------------+-----+-----------+
//	        v                 v                 v
//	      grant         want: a Read      wait: watches
//
// For example, entry 7 of ours joins a mutex behind 5, which holds, and 6. The answer to the join
// is the first fact: the picture is "5 6 7". The verdict is to wait for 6, and 5 is before it. So
// the queue watches 6, 5 and, to know that it lives, 7 itself. The event "5 is gone" makes the
// picture "6 7", and the verdict is to wait as before. The event "6 is gone" makes it "7": the
// verdict is to hold, the armed and silent watch on 7 proves that 7 lives, and 7 is granted. Nothing was
// read.
//
// # Why it is sound
//
// The service gives every entry a place behind all that exist, so the set ahead of an
// entry only shrinks, and rules are monotone. The picture may show entries that are gone,
// and may lack marks, but it lacks no entry where it shows no gap. So an entry that may
// hold by the picture may hold in the queue, provided that the entry itself is alive.
// Only that has to be proved for a grant, and there are three proofs (type proof): a view that
// shows the entry; an armed watch on the entry that has reported no end; an acknowledged change
// by the same session, the deletion of another entry or a mark on one, in which the
// session was alive.
//
// # What makes a proof void
//
// If an own entry is gone that was not asked to leave, the session may have ended, and
// with it all of its entries, of whose ends no event has come yet. So from then on no
// entry of the session is granted until a view has shown it that was asked for later (type
// doubts).
//
// A view proves something about its own moment only. If more is known than it shows, of
// entries that it does not reach too, the decision is about a later moment, and needs
// another proof (Queue.Learned).
//
// Where a limit decides, which can fall, only a view grants, which shows the queue and,
// not older, the limit.
//
// Where a writer of another program was seen, a second entry can have its place. Only a view
// of all that are ahead grants then (type foreignWriters).
package queue
