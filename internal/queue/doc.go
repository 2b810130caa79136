// Package queue is the one engine under all recipes: it joins queues, waits, grants,
// and leaves. Which entries hold is decided by package rule, a pure function of the
// entries ahead. This package asks that function at the right moments.
//
// # The picture
//
// A queue keeps one picture of what is known: entries in the order of their places, with
// the gaps between them. Facts change the picture, a rule decides for those of our entries
// that a fact can concern, and the watches follow what the verdicts wait for:
//
//	a Join, a Read     an event     an own Leave, Update
//	      |               |                    |
//	      v               v                    v
//	   joined,          event            left, marked
//	   learned            |                    |
//	      +---------------+---------+----------+
//	                                v
//	                   picture: entries, marks, gaps
//	                                |
//	                                v
//	               decide: rule.Decide for own entries
//	                                |
//	        +-----------------+-----+-----------+
//	        v                 v                 v
//	      grant         want: a Read      wait: watches
//
// Everything in that picture is without locks and without requests (queue.go, facts.go,
// picture.go, decide.go). The engine around it holds the mutex, sends, and starts goroutines
// (engine.go): at most one that reads, for each queue, and none for an idle queue.
//
// # Why it is sound
//
// The service gives every entry a place behind all that exist, so the set ahead of an
// entry only shrinks, and rules are monotone. The picture may show entries that are gone,
// and may lack marks, but it lacks no entry where it shows no gap. So an entry that may
// hold by the picture may hold in the queue, provided that the entry itself is alive.
// Only that has to be proved for a grant, and there are three proofs: a view that shows
// the entry; an armed watch on the entry that has reported no end; an acknowledged change
// by the same session, the deletion of another entry or a mark on one, in which the
// session was alive.
//
// If an own entry is gone that was not asked to leave, the session may have ended, and
// with it all of its entries, of whose ends no event has come yet. So from then on no
// entry of the session is granted until a view has shown it that was asked for later.
//
// A view proves something about its own moment only. If more is known than it shows, of
// entries that it does not reach too, the decision is about a later moment, and needs
// another proof.
//
// Where a limit decides, which can fall, only a view grants, which shows the queue and,
// not older, the limit.
//
// # What is left behind
//
// On every way out, the entry is deleted, or the janitor of the term deletes it, or the
// term is over and the entry ends with it.
package queue
