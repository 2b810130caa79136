package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is exec.CommandContext for a program that does not leave by itself when
// its standard input ends. With Start it dies with this process all the same:
// here the kernel sees to it, on other systems a shell that watches the input.
// Only where there is no such shell can it be left behind.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

// dieWithParent asks the kernel to kill a child when the thread that made it
// ends, which reaches even a child that is stopped.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped returns when all threads of the process stand still after a signal to
// stop. It asks again and again, for a call that waits would not be told of the
// end of a process that somebody else reaps; and it leaves the answer there for
// the next call of Pause.
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
