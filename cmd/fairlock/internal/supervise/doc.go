// Package supervise runs a command for as long as something that runs out
// allows, a lease for example, and sees to it that the command is dead when it
// has run out. It knows nothing of locks.
//
// # What is promised
//
// The command runs in a process group of its own. When less than the grace is
// left, the group is told to stop (SIGTERM unless Spec says otherwise); when
// nothing is left, what lives of the group is killed, and Run returns when all
// of it is dead and reaped. The group is what is promised: a process that has
// left it (setsid, a job of an interactive shell) is its own master.
//
// On Linux a guard, a second process of this program, knows the group and the
// deadline. It kills the group when Run's process is gone, whatever ended it,
// and at the deadline even if Run's process is stopped (SIGSTOP, ^Z) or starved.
// The kernel kills the command itself too (PR_SET_PDEATHSIG), so that the
// command goes even if somebody kills the guard in the same moment. Orphans of
// the group become our children (PR_SET_CHILD_SUBREAPER) and are reaped.
//
// # What is not
//
// A machine that is suspended, or a virtual one that is paused, takes the guard
// with it. When it goes on, the clock is compared before anything else is done,
// and the group is killed first; but until then the command may have run for a
// moment beside whoever came next. Nothing can be promised about a process
// that changed its user (sudo), which we may not signal and the kernel exempts,
// nor about one that hangs in the kernel: Run waits for it. Elsewhere than on
// Linux there is no guard, and without Unix no group: only the process itself is
// killed.
package supervise
