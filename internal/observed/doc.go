// Package observed decides two things for a backend whose store ends nothing by itself: which
// sessions of other processes are over (Leases), and whether the data may be trusted after a
// failover or a loss of data (Quarantine). It knows no store, sends nothing, and reads no clock: a
// backend passes what answers of the store have shown, and when they were received.
//
// # The words
//
//	version  a number in the row of a session; each renewal raises it
//	sight    the version that an answer has shown
//	receipt  the moment at which an answer was received, on the clock of the process that asked
//	to end   to delete a session with all that it owns, if it still has the version of the sight
//	life     the identifier of an incarnation of the data: another one after a promotion, a restore
//	         or, where the store is in memory, a restart
//	blessed  a store is blessed if the life that is stored in it is that of its server
//	claim    the life that a client wants to bless, and a random tag; stored next to the life
//	count    the time for which one process has known one claim
//	holder   here: a process with a hold that it still trusts; it may be cut off from the store
//
// # Observed leases
//
// No time is stored. The owner of a session raises its version, and trusts the session until the
// sending of the newest acknowledged renewal plus the TTL, less its margin. An observer counts a
// whole TTL from the receipt of the first answer with a version, and then ends the session:
//
//	owner     send renewal ---- trusts for TTL less margin ----|
//	store           version 7
//	observer            receipt of 7 ---- counts the TTL ----------| ends it, if it still has 7
//
// The store applied the renewal after the owner sent it, and before the observer received the answer
// that shows it. So the observer stops counting after the owner stops trusting, whatever the clocks
// of day show; only the rates of two monotonic clocks matter, and the margin covers their
// difference. A renewal that the observer has not seen raises the version, and the comparison fails.
// A renewal that arrives after the end finds no session and is never acknowledged.
//
// # Life and quarantine
//
// A store that fails over without all of its data may have lost entries whose holders are alive. So
// each statement of a backend compares the stored life with that of the server, and if they differ,
// nothing is granted until all holders of before have stopped trusting:
//
//	answer shows                                     the backend
//	stored life = life of the server                 goes on
//	no claim, or one of another life                 writes a claim with a tag of its own
//	a claim of this life                             counts the greatest TTL from this receipt
//	the same claim, and the count is over            blesses: stored life = life of the server
//
// An owner renews only in the life in which it opened its session. An answer that shows the claim also
// shows that no server of an older life can acknowledge a renewal any more (or it is marked as
// Unproven). So the last such renewal was sent before the receipt of that answer, and one greatest TTL
// later no holder of before trusts anything. Each process counts for itself: it cannot know when
// another one received such an answer. It adds what it has counted to a sum next to the claim, and one
// that begins later goes on from there. An addition is the time since the answer that has shown the
// sum, and is made only if that is still the sum: so no moment counts twice.
//
// The tag makes each quarantine one of its own. Without it, a process that has counted in this life
// before, when the store was emptied for the first time, would bless at once when the store is emptied
// again: the claim of another process would look like the one that it has counted.
//
// # What a backend must do
//
//   - A renewal counts from its sending, and only when the store has acknowledged it. A commit whose
//     wait for a standby was cancelled is not acknowledged.
//   - Everything that writes or grants compares the life on the server, in the same step.
//   - An end compares the version, a bless the life of the server and the whole claim, and an addition
//     the sum too, in the same step as they write.
//   - A bless moves the tokens on by the greatest TTL, if they come from a clock: until the end of the
//     last trust window an old server may have given out tokens by another clock.
//
// And its operator:
//
//   - A life never comes back: a server that was replaced must not acknowledge a renewal again, and
//     data never goes back to an older state within one life. Nothing here can notice that.
//   - The greatest TTL is raised only where the raise cannot be lost: no session may use it before each
//     server that can be promoted has it.
//
// The models in the folder models contain these rules, but for the last, and Spin finds a violation in
// each model that breaks one. The planted bugs in the folder mutants break the rules of this package
// and of a backend in Go, and the tests find each.
package observed
