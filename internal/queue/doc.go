// Package queue is the one engine under all recipes: join the line, look, wait,
// grant, leave. Who may hold is said by a [Rule], a pure function over the
// entries ahead; everything else here serves to ask it at the right moments.
//
// # Why it is sound
//
// The service gives every entry a place behind all that exist, so the set ahead
// of an entry only ever shrinks, and rules are monotone: fewer ahead never takes
// a hold away. A hold that was seen once after joining stays true for as long as
// the entry lives. A stale look can delay a grant, never make a wrong one. What
// must be guarded is only that the own entry lives: by the session's deadline,
// and by a watch on the entry.
//
// # The life of a seat
//
// A seat is one entry of ours in one line.
//
//	           nobody ahead                     Unlock
//	joined ---------------------> held -------------------------> over
//	   |                           ^ |  entry deleted, term lost    ^
//	   | somebody ahead            | +------------------------------+
//	   v            rule says hold |                                |
//	waiting -----------------------+     ctx ended, entry deleted,  |
//	   +------------------------------------------------------------+
//	                                     term lost, blocker without a session
//
// A waiting seat does three things in this order, as often as needed: it arms
// watches on its own entry and on those that the rule names, it looks at the
// line once all of them are armed, and it sits still until one of them goes.
// When that one was all it waited for, and its own watch has been silent, it
// holds without asking again. Otherwise it looks.
//
// # The word of a holder
//
// That the entry right before a seat is gone does not mean that the seat's turn
// has come: its owner may only have given up waiting. Where the driver tells
// that it held (Profile.Tells), it does. When that owner was granted, nobody was
// ahead of it, and nobody has come there since. Nor has anybody come between it
// and the seat, since the look that showed them side by side. So nobody is ahead
// of the seat. This is believed of no entry but the nearest, and it says nothing
// of the own entry, which must be known to have lived as for any grant.
//
// # Who runs where
//
// The caller's goroutine joins and then blocks on one channel. Events run in
// the driver's goroutine and only change state under the line's mutex. Looks
// are made by at most one goroutine for each line of this process, for all its
// seats at once; it ends when nobody wants a look. There is nothing for an idle
// line.
//
// # What is left behind
//
// On every way out, the entry is deleted, or its deletion is in the hands of the
// term's janitor, or the term is over and the entry dies with it.
package queue
