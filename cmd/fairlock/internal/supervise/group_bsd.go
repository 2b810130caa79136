//go:build unix && !linux

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs does nothing: these systems have no such request.
func dieWithUs(*syscall.SysProcAttr) {}

// ended is false: these systems report an end only when the child is reaped.
func ended(int) bool { return false }

// reapOrphans does nothing: orphans are children of init.
func reapOrphans(...int) {}

// empty reports whether the group is gone. If its number were used again at once, empty
// would not notice, so it must be called soon after the end.
func (g *group) empty() bool {
	return unix.Kill(-g.id, 0) == unix.ESRCH //nolint:errorlint // the value is an errno
}

// refuses returns the group's number if we may signal no process of it, 0 otherwise.
func (g *group) refuses() int {
	if unix.Kill(-g.id, 0) == unix.EPERM { //nolint:errorlint // the value is an errno
		return g.id
	}
	return 0
}

// stopSelf raises SIGSTOP.
func stopSelf() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) }

// parent returns 0: on these systems only our own parent is known.
func parent(int) int { return 0 }
