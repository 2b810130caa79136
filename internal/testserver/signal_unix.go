//go:build unix

package testserver

import "syscall"

// Pause stops the process where it stands. It fails when the process is gone.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on. It fails when the process is gone.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to leave; a paused one hears it after Resume. It
// fails when the process is gone.
func (p *Process) Terminate() error { return p.Signal(syscall.SIGTERM) }
