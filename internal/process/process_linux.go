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

// Command is exec.CommandContext for a program that does not exit when its
// standard input ends. Started with Start, it dies with this process all the
// same: on Linux the kernel kills it, on other Unix systems a shell does that
// watches the input. Elsewhere the program may be left behind. The command is only
// for Start and StartPiped: with another input, the shell may kill the program at
// once.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

// dieWithParent makes the kernel kill a child when the thread that started it
// ends, even if the child is stopped or another user's.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	var own syscall.SysProcAttr
	if attributes != nil {
		own = *attributes
	}
	own.Pdeathsig = syscall.SIGKILL
	return &own
}

// stopped returns when all threads of the process have stopped after SIGSTOP. It
// polls: a blocking call would not return when another goroutine reaps the
// process. WNOWAIT keeps the status for the next call of Pause.
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
