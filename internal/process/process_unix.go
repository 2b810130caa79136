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

// Pause stops the process where it stands, and on Linux returns when it does: a
// thread that runs while the signal is sent may finish what it is about. It fails
// when the process is gone.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.stopped()
}

// Resume lets a paused process go on. It fails when the process is gone.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to leave; a paused one hears it after Resume. It
// fails when the process is gone.
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

// leash runs a program that does not look at its standard input, and kills it
// when that ends without a line: a shell in the background reads it, and $$ is
// what the program has become. Started that way it must not hold the program's
// output open, or nobody would see it end.
const leash = `exec 3<&0 </dev/null
{ read -r _ <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-`

// farewell keeps the shell of a program that is gone from killing another program
// that has got its number since.
const farewell = "\n"

func leashed(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", leash, "sh", name}, args...)...)
}
