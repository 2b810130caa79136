//go:build unix

package demo

import (
	"errors"
	"os/exec"
	"syscall"
)

// supported says that the faults of the demonstration exist here.
const supported = true

// pause stops a process, which cannot notice; see stopped.
func pause(p *process) error { return p.signal(syscall.SIGSTOP) }

// resume wakes a process that was stopped.
func resume(p *process) error { return p.signal(syscall.SIGCONT) }

// wake is resume for whom it may concern.
func wake(p *process) { _ = resume(p) }

// slain says whether a process was ended by SIGKILL.
func slain(err error) bool {
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	ws, ok := e.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}
