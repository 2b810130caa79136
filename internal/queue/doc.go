// Package queue decides which of our entries hold. It keeps one picture of what is known of each
// queue, takes in facts, and applies the rules of package rule. It has no context, no mutex, no
// goroutine and no request: it asks Outside for those, and package engine is that outside.
//
// # The words
//
//	entry    a place in a queue at the service; own entries are those of this process and term
//	ahead    the entries before an entry; they can only become fewer
//	fact     what stays true: an entry was there at a moment, has a mark, was first, is gone
//	view     entries up to a place, as the answer to a Read or a Join shows them
//	picture  the entries of a queue that are known here, with gaps where others may be
//	verdict  what the rule decides by the picture: hold, wait for these entries, read more, never
//	proof    what the newest fact shows of the entry itself: whether it lived at that moment
//	group    the entries of one request, one in each of its queues
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
// verdict is to hold, the armed and silent watch on 7 proves that 7 lives, and 7 is granted.
// Nothing was read. If the watch on 7 is not armed yet, its event Armed is the fact that grants.
//
// A grant needs the verdict and the proof. Which facts bring them depends on what is known ahead:
//
//	the entry                        the verdict is to hold by         it is proved alive by
//	need not wait                    the answer to its join            that answer
//	waits, all ahead are known       Gone of the last that blocks it   the watch on it
//	waits, not all are known         Gone of the nearest, and a read   that read
//	the same, and Gone shows First   Gone of the nearest               the watch on it
//	is right behind one of ours      the answer to that one's Leave    that answer
//	waits for permits                a read, after any event           that read
//
// All are known of an entry that joined behind one or two, in most cases. One that joined behind
// more knows the nearest two, and learns of the others when it is near the front. First is the
// report that the entry which is gone had been the first, so nothing is ahead of the one behind
// it. Not every service makes that report. An entry is watched itself when at most two are ahead,
// where First was reported before, and when it has waited for long. If it has no such watch when
// the verdict is to hold, the watch begins then.
//
// When the last entry of a group holds, the group calls Owner.Done, once. An entry of the group
// that was granted earlier must have lived until then. So it is watched from its own grant on, and
// the group waits until that watch is armed (Group.complete).
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
// session was alive. The last one counts only if no event has come since the change was sent:
// what the event shows may be later than the change.
//
// So a picture that is old can delay a grant, and never makes a wrong one.
//
// # What makes a proof void
//
// If an own entry is gone that was not asked to leave, the session may have ended, and
// with it all of its entries, of whose ends no event has come yet. So from then on no
// entry of the session is granted until a view has shown it that was asked for later (type
// doubts).
//
// A view proves something about its own moment only. If the picture has a later change of an
// entry that the view shows or does not reach, the decision is about a later moment, and needs
// another proof (Queue.Learned).
//
// Where a limit decides, which can fall, only a view grants, which shows the queue and,
// not older, the limit.
//
// Where a writer of another program was seen, a second entry can have its place. Only a view
// of all that are ahead grants then (type foreignWriters).
package queue
