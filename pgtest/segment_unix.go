//go:build linux || darwin

package pgtest

import (
	"context"
	"errors"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// unlinkSegment makes a segment of shared memory go with the last process that uses it.
// Without that, a server that is killed would leave it behind. The server still finds out
// whether another uses it, by its number; it logs that it cannot remove it itself.
//
// Not handled: a postmaster that has restarted its children has a new segment, of 56 bytes. It
// stays if the test process dies before Kill, Restart or Close.
//
//nolint:contextcheck // nothing of it blocks
func (s *Server) unlinkSegment(number int) {
	if number < 0 {
		return
	}
	_, err := unix.SysvShmCtl(number, unix.IPC_RMID, nil)
	if !errors.Is(err, unix.EPERM) {
		return // it may be gone already
	}
	// In a container, root often may not do that for another user.
	cmd := exec.CommandContext(context.Background(), "ipcrm", "-m", strconv.Itoa(number))
	cmd.SysProcAttr = s.as.attributes()
	_ = cmd.Run()
}
