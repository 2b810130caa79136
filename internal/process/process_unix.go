//go:build unix

package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// CanPause reports whether Pause, Resume and Terminate work on this system.
const CanPause = true

// Pause stops the process. On Linux, it returns when all threads have stopped: a
// thread that runs while the signal is sent may first finish what it is doing. It
// fails when the process has ended.
func (p *Process) Pause() error {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.stopped()
}

// Resume lets a paused process continue, after a Pause that is under way. It fails when
// the process has ended.
func (p *Process) Resume() error {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	return p.Signal(syscall.SIGCONT)
}

// Terminate sends SIGTERM to the process. A paused process receives it after
// Resume. It fails when the process has ended.
func (p *Process) Terminate() error { return p.Signal(syscall.SIGTERM) }

// Killed reports whether a process that ended with err was ended by SIGKILL.
func Killed(err error) bool {
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	ws, ok := e.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// leash is a shell script that runs a program which does not read its standard
// input, and kills it when that input ends without a newline. A background shell
// reads the input; $$ is the process id of the program after exec. The background
// shell must not keep the program's output open, or its readers would not see the
// end of it.
const leash = `exec 3<&0 </dev/null
{ read -r _ <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-`

// farewell is written when the program has ended. It keeps the shell from killing
// another program that has got the same process id since.
const farewell = "\n"

func leashed(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", leash, "sh", name}, args...)...)
}
