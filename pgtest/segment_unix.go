//go:build linux || darwin

package pgtest

import "golang.org/x/sys/unix"

// unlinkSegment makes a segment of shared memory go with the last process that uses it.
// Without that, a server that is killed would leave it behind. The server still finds out
// whether another uses it, by its number; it logs that it cannot remove it itself.
func unlinkSegment(segment int) {
	if segment >= 0 {
		_, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) // it may be gone already
	}
}
