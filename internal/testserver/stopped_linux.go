package testserver

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stopped returns when all threads of the process stand still after a signal to
// stop. It asks again and again, for a call that waits would not be told of the
// end of a process that somebody else reaps; and it leaves the answer there for
// whoever stops it once more.
func (p *Process) stopped() error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid(), &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // reaped
			return os.ErrProcessDone
		case info.Signo != 0:
			return nil
		}
		select {
		case <-p.done:
			return os.ErrProcessDone
		case <-time.After(time.Millisecond):
		}
	}
}
