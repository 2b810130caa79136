//go:build unix

package testserver

import "syscall"

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
