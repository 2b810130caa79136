// Package sim runs the recipes on a simulated service, with faults, and holds
// what they do against what they promise.
//
// The recipes, the engine and the sessions are the real ones, in real
// goroutines inside a bubble of testing/synctest; the service is membackend's
// store. Between them stands one scheduler. Every message, event and timer is
// posted to it, and it lets one happen, waits until all goroutines rest again,
// and lets the next one happen. What was posted meanwhile is sorted by names
// that do not depend on which goroutine came first, before chance says what
// becomes of it. So one seed is one run, on any number of processors.
//
// # Faults
//
// Clients have clocks of their own, whose rates differ by less than the margin.
// They are stopped and go on; their networks are cut, both ways or one way;
// requests and replies are lost, late, slow or doubled; their sessions are ended
// and their entries deleted from outside; foreign entries stand in the line for a
// while; watches break. Some of it comes at random times, some at the very moment
// of a call, where it hurts most.
//
// # Oracles
//
// They know what callers saw, and what the service did: the line itself, after
// every transaction. They do not ask the library, but for the holds that it
// handed out.
//
//   - S1: of two holds that exclude each other, not both are believed in; no
//     more permits are believed in than there were; no slot twice.
//   - S1': a hold that was seen to be over stays so.
//   - S2: a token is the place in the line, and above those granted before.
//   - S4: a hold is of an entry that the rule admitted at some moment, applied
//     to the line as the service had it. This is order and exclusion without any
//     clock.
//   - S5: in the end nothing is left in any line; the account of how holds end
//     is right; limits are what they were set to.
//   - S6: a call returns soon after its context has ended.
//   - S7: the hooks report one outcome of every request, and one end of every hold.
//   - L1: who is admitted learns of it in time, if its network is healthy; all
//     come to an end when all is healed.
//   - L2: a hold is over before its session expires at the service.
//
// # Repeating a run
//
// A run that fails prints the command that repeats it. Its trace says what
// happened, one line for each event.
package sim
