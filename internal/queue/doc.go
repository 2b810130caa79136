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
// that it held and admitted nobody (Profile.Tells), it does: when that owner was
// granted, nobody was ahead of it, and nobody has come there since. Nor has
// anybody come between it and the seat, since the look that showed all of them.
// So nobody is ahead of the seat but those in between. This says nothing of the
// own entry, which must be known to have lived as for any grant.
//
// # Where the line is not all
//
// Two things break the simple picture, and each has one rule here. A limit can
// become less: so a seat in a line with a limit is admitted by one look, which
// shows line and limit together, and never by an event that is added to an older
// one. And where a writer that becomes a reader gets another entry in the place
// of the old one (Profile.Moves), the end of an entry that is Movable may be
// that: unless it is known to have held to its end, the next look tells.
//
// Whoever is admitted in a line with a limit has that noted at the service, in
// the background: at once if it had to wait, else when it has held for a moment.
// It is the note, or the end, that the one behind it waits for.
//
// # Several lines
//
// A request for several lines has a seat in each. It holds when all of them do,
// loses all when it loses one, and gives all back in one transaction.
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
