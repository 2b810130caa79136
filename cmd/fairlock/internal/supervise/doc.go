// Package supervise runs a command until a deadline that can move, such as that of a
// lease, and makes sure that the command is dead at the deadline. It knows nothing of
// locks.
//
// # Guarantees
//
// The command runs in a process group of its own. When less than the grace is left, the
// group gets a signal to stop: SIGTERM, or Spec.Signal. At the deadline Run kills all
// processes of the group that still live, and returns when all of them are dead and
// reaped. A command ends when all of its group has ended: what it has started in the
// background works on under the same lease, and is stopped as the command is. A process that
// has left the group (setsid, a job of an interactive shell) is not covered.
//
// A shell that has called us sees the end of the command as if it had called the command: we
// take the terminal back, and end by the signal that ended the command. If that was typed
// while only the command had the terminal, our group gets it too (Die). Not handled: a
// command that handles ^C and exits with a code of its own. A shell that ends with every ^C,
// such as dash, goes on then, because we cannot know that a key was pressed.
//
// On Linux a guard, a second process of this program, knows the group and the deadline.
// It kills the group when Run's process is gone, whatever ended it, and at the deadline
// even if Run's process is stopped (SIGSTOP, ^Z) or starved. The kernel kills the
// command itself too (PR_SET_PDEATHSIG), so the command dies even if the guard is killed
// at the same moment. Orphans of the command become our children
// (PR_SET_CHILD_SUBREAPER) and are reaped, also those that have left the group.
//
// # Limits
//
// If a machine is suspended, or a virtual machine is paused, so is the guard. When the
// machine resumes, Run first compares the clock, and kills the group. Until then the
// command may have run for a moment at the same time as that of the next lease. Nothing
// is guaranteed for a process that changed its user (sudo): we may not signal it, and
// the kernel does not kill it. Spec.Refused reports it. Run waits for a process that hangs
// in the kernel. On systems other than Linux there is no guard. On systems other than Unix
// there is no group: only the process itself is killed.
package supervise
