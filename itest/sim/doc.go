// Package sim runs the recipes on a simulated service, with faults, and checks
// them against their promises.
//
// The recipes, the engine and the sessions are the real ones, in real
// goroutines inside a bubble of testing/synctest; the service is membackend's
// store. One scheduler is between them. Every message, event and timer is
// posted to it. It carries out one of them, waits until all goroutines are
// blocked again, and carries out the next one. It sorts what was posted
// meanwhile by names that do not depend on which goroutine came first, before
// it draws times and faults. So one seed is one run, on any number of
// processors.
//
// # Faults
//
// Clients have clocks of their own, whose rates differ by less than the margin.
// Processes are stopped and resumed; networks are cut, in both directions or in
// one; requests and replies are lost, late, slow or doubled; an operator ends
// sessions and deletes entries; foreign entries are in the queue for a while;
// watches break. In the queue of a read-write lock the foreign entries are as
// Curator's: a writer that holds may acquire the read lock too, with a reader at its
// place, and release either first. Some faults come at random times, others at the
// moment of a call.
//
// # Oracles
//
// The oracles know what callers saw, and what the service did: the queue itself,
// after every transaction. Of the library they use only the holds that it
// returned.
//
//   - S1: of two holds that exclude each other, at most one is trusted; no more
//     permits are trusted than the limit was; no slot is held twice. The owner of a
//     foreign entry holds when the rule lets it.
//   - S1': a hold that was over stays over.
//   - S2: a token is the place in the queue, and above those granted before.
//   - S4: a hold is of an entry that the rule let hold at some moment, applied
//     to the queue as the service had it. This is order and exclusion without any
//     clock.
//   - S5: in the end nothing is left in any queue; the ledgers are right; limits
//     are what they were set to.
//   - S6: a call returns soon after its context has ended.
//   - S7: the hooks report one outcome of every request, and one end of every hold.
//   - S8: work whose key was recorded as done is not done again.
//   - L1: a waiter whose turn has come is granted in time, if its network is
//     healthy; every call returns when all faults are over.
//   - L2: a hold is over before its session expires at the service.
//
// # Repeating a run
//
// A run that fails prints the command that repeats it. Its trace has one line
// for each event.
package sim
