package testserver

import (
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
	cmd  *exec.Cmd
	said tail
	done chan struct{} // closed when it is gone and reaped
	err  error         // why it went; to be read after done
}

// Start runs cmd, whose standard input, output and error it takes for itself.
// talk, if not nil, is called with the other ends and must return when stdout
// ends; without it the output is thrown away. Start does not fail: a process
// that could not be started has ended, and Err says why. The caller halts it.
func Start(cmd *exec.Cmd, talk func(stdin io.Writer, stdout io.Reader)) *Process {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan struct{})
	go p.run(talk, started) // ends with the process, which Halt waits for
	<-started
	return p
}

// run is the whole life of the process.
func (p *Process) run(talk func(io.Writer, io.Reader), started chan<- struct{}) {
	// The kernel ends the child with the thread that made it, so that thread
	// has to stay as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)

	stdin, stdout, err := p.start(talk != nil)
	close(started)
	if err != nil {
		p.err = err
		return
	}
	// It is open until the child is gone: its end is what tells the child to go.
	defer func() { _ = stdin.Close() }()
	if talk != nil {
		talk(stdin, stdout)
	}
	if err = p.cmd.Wait(); err == nil {
		err = errors.New("exit status 0")
	}
	if said := strings.TrimSpace(p.said.String()); said != "" {
		err = errors.Join(err, errors.New(said))
	}
	p.err = fmt.Errorf("process ended: %w", err)
	_, _ = io.WriteString(stdin, farewell)
}

func (p *Process) start(talks bool) (stdin *os.File, stdout io.Reader, err error) {
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = dieWithParent()
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirs.Close() }()
	p.cmd.Stdin = theirs
	if talks {
		stdout, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		_ = stdin.Close()
		return nil, nil, err
	}
	return stdin, stdout, nil
}

// Pid is its number; 0 if it could not be started.
func (p *Process) Pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why the process is gone, with what it said last on its standard
// error. It is nil before Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Said is what the process has said on its standard error: the end of it, if
// that is long.
func (p *Process) Said() string { return p.said.String() }

// Halt kills the process and returns when it is gone.
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
