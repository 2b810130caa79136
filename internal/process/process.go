// Package process runs other programs, for tests and demonstrations: it starts,
// stops and kills them, says how they ended, and never leaves one behind.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Process is a program that this one has started and does not leave behind:
// however this process dies, the kernel kills the child on Linux, and everywhere
// the child's standard input ends. Its methods may be called from any goroutine.
type Process struct {
	cmd    *exec.Cmd
	stdin  *os.File // nil if it could not be started
	stdout *os.File // nil without StartPiped
	said   tail
	done   chan struct{} // closed when it is gone and reaped
	exit   error         // what Wait returns
}

// Self returns a command that starts this program again with a variable in its
// environment: main, or TestMain, looks there for what it has to do.
func Self(ctx context.Context, variable, value string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), variable+"="+value)
	return cmd, nil
}

// Start runs cmd, whose standard input and error it takes for itself. Start does
// not fail: a process that could not be started has ended, its Pid is 0, and Err
// says why. The caller calls Halt in the end.
func Start(cmd *exec.Cmd) *Process { return start(cmd, false) }

// StartPiped is Start for a program whose standard output Read returns. It must be
// read: a program waits for a reader when the pipe is full.
func StartPiped(cmd *exec.Cmd) *Process { return start(cmd, true) }

func start(cmd *exec.Cmd, piped bool) *Process {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan struct{})
	go p.run(piped, started) // ends with the process, which Halt waits for
	<-started
	return p
}

// run is the whole life of the process.
func (p *Process) run(piped bool, started chan<- struct{}) {
	// The kernel ends the child with the thread that made it, so that thread
	// has to stay as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)

	p.exit = p.begin(piped)
	close(started)
	if p.exit != nil {
		return
	}
	p.exit = p.cmd.Wait()
	_, _ = io.WriteString(p.stdin, farewell)
	_ = p.stdin.Close()
}

func (p *Process) begin(piped bool) error {
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = dieWithParent()
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	p.cmd.Stdin = theirs
	if piped {
		stdout, theirs, err := os.Pipe()
		if err != nil {
			return errors.Join(err, stdin.Close())
		}
		defer func() { _ = theirs.Close() }()
		p.cmd.Stdout, p.stdout = theirs, stdout
	}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, stdin.Close())
	}
	p.stdin = stdin // open until the child is gone: its end tells the child to go
	return nil
}

// Pid is its number; 0 if it could not be started.
func (p *Process) Pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Write writes to its standard input. It blocks while the pipe is full, and fails
// when the process is gone.
func (p *Process) Write(b []byte) (int, error) {
	if p.stdin == nil {
		return 0, os.ErrProcessDone
	}
	return p.stdin.Write(b)
}

// CloseInput ends its standard input. A program that reads it leaves then.
func (p *Process) CloseInput() {
	if p.stdin != nil {
		_ = p.stdin.Close() // it may be closed already
	}
}

// Read reads its standard output, after StartPiped. At the end of that, also when
// the process was killed, all has been read that it had written.
func (p *Process) Read(b []byte) (int, error) {
	if p.stdout == nil {
		return 0, io.EOF
	}
	return p.stdout.Read(b)
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the process is gone, and returns what [exec.Cmd.Wait] did: nil
// if it left by itself, with exit status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.exit
}

// Err says why the process is gone, with what it said last on its standard
// error: of a process that was not to leave, exit status 0 is an error too. It is
// nil before Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	err := p.exit
	if err == nil {
		err = errors.New("exit status 0")
	}
	if said := strings.TrimSpace(p.Said()); said != "" {
		err = errors.Join(err, errors.New(said))
	}
	return fmt.Errorf("process ended: %w", err)
}

// Said is what the process has said on its standard error: the end of it, if
// that is long.
func (p *Process) Said() string { return p.said.String() }

// Halt kills the process and returns when it is gone. What it has written can
// still be read.
func (p *Process) Halt() {
	// An error means that it is gone already, or was never there.
	_ = p.Signal(os.Kill)
	<-p.done
}

// Signal sends a signal. It fails when the process is gone.
func (p *Process) Signal(sig os.Signal) error {
	if p.cmd.Process == nil {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}
