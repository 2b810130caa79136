//go:build unix && !linux

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// tie: there is no such thing here.
func tie(*syscall.SysProcAttr) {}

// ended: here a child is reaped to learn that.
func ended(int) bool { return false }

// empty says that the group is gone. One that has gone is told from one whose
// number was given out again only by its being looked at soon.
func (g *group) empty() bool {
	return unix.Kill(-g.id, 0) == unix.ESRCH //nolint:errorlint // it is a number, and of the kernel
}

// stopSelf raises SIGSTOP.
func stopSelf() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) }

// parent: here only our own is known.
func parent(int) int { return 0 }
