// Package process runs other programs, for tests and demonstrations: it starts,
// stops and kills them, reports how they ended, and never leaves one behind.
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
	"sync"
	"time"
)

// stderrOpen is how long Wait reads standard error after the end of the process. A
// process that the program has started may keep it open.
const stderrOpen = 5 * time.Second

// Process is a program that this process has started and does not leave behind.
// However this process dies, the kernel kills the child on Linux, and on every
// system the child's standard input ends. Its methods may be called from any
// goroutine.
type Process struct {
	cmd    *exec.Cmd
	stdin  *os.File // nil if it could not be started
	stdout *os.File // nil without StartPiped
	stderr Tail
	done   chan struct{} // closed when the process has ended and is reaped
	exit   error         // what Wait returns

	pausing sync.Mutex // Pause has to see the process stopped before Resume
}

// Self returns a command that starts this program again with a variable in its
// environment: main, or TestMain, reads there what to do.
func Self(ctx context.Context, variable, value string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), variable+"="+value)
	return cmd, nil
}

// Child is the other side of Self, for the begin of main or TestMain. In a process that Self has started
// with the variable, it calls work with the value, and exits: with 1, and the error on standard error,
// if work fails. Elsewhere it does nothing.
func Child(variable string, work func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	err := work(value)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start runs cmd, and uses its standard input and error itself. Of its SysProcAttr, it sets
// what makes it die with this process, and leaves the rest. Start does not
// fail: a process that could not be started has ended, its Pid is 0, and Err
// returns the reason. The caller calls Halt in the end.
func Start(cmd *exec.Cmd) *Process { return start(cmd, false) }

// StartPiped is Start for a program whose standard output Read returns. The caller
// must read it: the program blocks while the pipe is full.
func StartPiped(cmd *exec.Cmd) *Process { return start(cmd, true) }

func start(cmd *exec.Cmd, piped bool) *Process {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan struct{})
	go p.run(piped, started) // ends with the process, which Halt waits for
	<-started
	return p
}

// run starts the process, waits until it ends, and closes its standard input.
func (p *Process) run(piped bool, started chan<- struct{}) {
	// On Linux, the kernel kills the child when the thread that started it ends,
	// so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	p.exit = p.begin(piped)
	if p.exit != nil {
		close(p.done)
		close(started)
		return
	}
	defer close(p.done)
	close(started)
	p.exit = p.cmd.Wait()
	if errors.Is(p.exit, exec.ErrWaitDelay) {
		p.exit = nil // the process itself exited with status 0
	}
	_, _ = io.WriteString(p.stdin, farewell)
	_ = p.stdin.Close()
}

func (p *Process) begin(piped bool) error {
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = stderrOpen
	p.cmd.SysProcAttr = dieWithParent(p.cmd.SysProcAttr)
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
	p.stdin = stdin // open while the child runs: the child exits when it ends
	return nil
}

// Pid returns the process id; 0 if the process could not be started.
func (p *Process) Pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Write writes to the standard input of the process. It blocks while the pipe is
// full, and fails when the process has ended.
func (p *Process) Write(b []byte) (int, error) {
	if p.stdin == nil {
		return 0, os.ErrProcessDone
	}
	return p.stdin.Write(b)
}

// CloseInput ends the standard input of the process. A program that reads it exits
// then.
func (p *Process) CloseInput() {
	if p.stdin != nil {
		_ = p.stdin.Close() // it may be closed already
	}
}

// Read reads the standard output of the process, after StartPiped. Before the end
// of the output, it returns everything that the process wrote, even if the process
// was killed.
func (p *Process) Read(b []byte) (int, error) {
	if p.stdout == nil {
		return 0, io.EOF
	}
	return p.stdout.Read(b)
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until the process has ended, and returns the result of
// [exec.Cmd.Wait]: nil if the process exited by itself, with status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.exit
}

// Err returns why the process ended, with the end of its standard error. Exit
// status 0 is an error too, for a process that was not to exit. Err is nil before
// Done is closed.
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
	stderr := strings.TrimSpace(p.Stderr())
	if stderr != "" {
		err = errors.Join(err, errors.New(stderr))
	}
	return fmt.Errorf("process ended: %w", err)
}

// Stderr returns what the process has written to its standard error: at most the
// last 16 KiB.
func (p *Process) Stderr() string { return p.stderr.String() }

// StderrLen returns how many bytes the process has written to its standard error.
func (p *Process) StderrLen() int { return p.stderr.Len() }

// Halt kills the process and returns when it has ended. Read still returns what it
// wrote. Processes that it has started itself may go on.
func (p *Process) Halt() {
	// An error means that the process has ended already, or was never started.
	_ = p.Signal(os.Kill)
	<-p.done
}

// Signal sends a signal. It fails when the process has ended.
func (p *Process) Signal(sig os.Signal) error {
	if p.cmd.Process == nil {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}
