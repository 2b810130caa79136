// Package queue decides which of our entries hold. It keeps a picture of each queue, takes in
// facts, and applies the rules of package rule. It has no context, mutex, goroutine or request: it
// asks Outside for watches, reads and renewals, and package engine is that outside.
//
// # The words
//
//	entry    a place in a queue at the service; own entries are those of this process and term
//	ahead    the entries before an entry; they can only become fewer
//	mark     what the owner adds to its entry for ever: it became a reader, or it holds permits
//	permits  what an entry of a semaphore asks for; those of all holders are within the limit
//	fact     what stays true: an entry was there at a moment, has a mark, was first, is gone
//	view     the entries up to a place at one moment: the answer to a Read or a Join
//	picture  the known entries of a queue, with gaps where unknown ones may be
//	verdict  what the rule decides by the picture: hold, wait for these entries, read more, never
//	proof    what a fact shows of the entry itself: whether it lived at that moment
//	armed    the service has confirmed a watch: the entry is there, and each later change is reported
//	First    with the event Gone: the entry had been first, so nothing is ahead of the one behind it
//	group    the entries of one attempt, one in each of its queues
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
//	      holds         want: a Read      wait: watches
//
// For example, our entry 7 joins a mutex behind 5, which holds, and 6. The answer to the join is the
// first fact: the picture is "5 6 7", and the verdict is to wait for 6. The queue asks for three
// watches: on 6; on 5, because the end of 6 lets 7 hold only if 5 is known to be gone; and on 7, for
// the proof. The event "5 is gone" makes the picture "6 7", and 7 still waits for 6. The event "6 is
// gone" makes it "7": the verdict is to hold. The watch on 7 is armed and has reported no end, so 7
// lives, and holds. Nothing was read. If that watch is not armed yet, 7 holds at its event Armed.
//
// An entry that joined behind one or two knows all that are ahead, if the answer to the join shows
// them. One that joined behind more knows the nearest two. When the nearest is gone, that entry reads,
// unless the event came with First, or other facts have shown all. Some services never report First.
//
// The queue watches each entry that has waited 250 ms. It watches one that waits for no permits sooner,
// if at most two are ahead, if one writer alone blocks a reader, if an own entry is right ahead that may
// pass soon, or if the service has reported First before (Queue.wait). Else the watch begins with the
// verdict to hold, where it can be the proof.
//
// An entry holds by the verdict and a proof:
//
//	the entry                    the verdict is to hold by                 it is proved alive by
//	need not wait                the answer to its join                    that answer
//	waits, knows all ahead       the end or mark of the last that blocks   the watch on the entry
//	waits, does not know all     the end of the nearest, and a read        that read
//	the same, with First         the end of the nearest                    the watch on the entry
//	is right behind one of ours  the Leave of that one, when it is sent    the watch on the entry
//	the same, not watched yet    the answer to that Leave                  that answer
//	waits for permits            a read, after any event                   that read
//
// When all entries of a group hold, the group calls Owner.Done: that is the grant of the attempt. The
// entries must live at one moment. So each that holds earlier is watched from then on, and Done waits
// until these watches are armed (Group.complete).
//
// # Why it is sound
//
// The service gives every entry a place behind all that exist, so the set ahead of an entry only
// shrinks. The picture may show entries that are gone, and may lack marks. It lacks no entry where it
// shows no gap, with one exception (at the end of this page). Rules are monotone: an entry that holds
// still holds with fewer entries ahead, or with more marks on them. So an entry that may hold by the
// picture may hold in the queue, if the entry lives. An old picture can delay a grant, and never makes
// a wrong one. One of three proofs shows that the entry lives (type proof):
//
//	byView   A view shows the entry.
//	byLeave  The service has acknowledged that this session deleted or marked another entry of its
//	         own, so the session lived at that change. If an event of the queue has come since the
//	         engine sent the change, this is no proof: the event may show what is later.
//	byEvent  An armed watch on the entry has reported no end. The event Lost, of a connection that
//	         broke for example, disarms the watch until Armed comes again.
//
// Events of different entries have no order, so the end of a silent entry can be on its way. If the
// session has expired, the deadline has passed before, and package engine makes no hold. If an operator
// has deleted the entry or ended the session, the event ends the hold when it comes, as for any holder.
// Until then two clients may hold (docs/guarantees.md), and a resource distinguishes them by the token.
//
// # Own entries that pass
//
// When our entry 7 is about to leave, and 8 behind it is ours too, 8 need not wait until 7 is gone
// (Entry.Passes). The caller of 7 has stopped. Others cannot hold before 7 is gone, and then not
// before 8 is gone: so that 8 lives is all that has to be proved, as for any grant. What stands ahead of 8
// and does not pass, or may stand there unknown, blocks it as before. That 7 is still there is no
// secret: 8 does not report that it was first before the answer shows that 7 is gone.
//
// # When a proof does not count
//
// Doubt: an own entry is gone, and no answer shows that this session has deleted it. The session may
// have ended with all of its entries, whose events have not come yet. A waiting entry of the session
// then holds only by a view that was asked for after the doubt, unless the answer to a Leave shows that
// there was no reason for it (type doubts).
//
// A later event: a view is of one moment. If an event has shown a later change ahead of the entry, the
// verdict is about a later moment than the view. Then the view is no proof, and the watch on the entry
// or a new view is (Queue.Learned).
//
// A join without an answer: an event may report the end of an entry that is of this join. The queue
// does not know such an entry as its own yet, so the event is no proof (Queue.event).
//
// Permits: an operator can lower the limit, so only a view with the newest known limit grants. The
// limit in a view is of the moment of the entries or later. Entries ahead only become fewer between the
// two, so an entry that fits in the view fits at the later moment.
//
// Another program's writer: Curator makes a reader of a writer by a second entry with the place of the
// writer, and no event reports that reader. Behind such a place only a view of all entries ahead grants
// (type foreignWriters).
package queue
