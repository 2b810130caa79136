package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
)

// process is one worker in a process of its own. It dies with us: its stdin
// ends then, and on Linux the kernel is told as well, which reaches even a
// process that is stopped.
type process struct {
	name  string
	pid   int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *wire.Writer
	done  chan struct{} // closed when it is gone and reaped
	err   error         // why it went; to be read after done
}

// spawn starts a worker. Its events go to report, one after the other; gone is
// called when it was reaped and all its events have been told.
//
//nolint:contextcheck // it ends by its stdin or by its pid, not with a context
func spawn(exe, name string, args []string, report func(*process, wire.Event), gone func(*process)) (*process, error) {
	p := &process{
		name: name,
		cmd:  exec.CommandContext(context.Background(), exe, args...),
		done: make(chan struct{}),
	}
	started := make(chan error)
	go p.run(started, report, gone) // ends with the process
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start worker %s: %w", name, err)
	}
	return p, nil
}

// run is the whole life of the process.
func (p *process) run(started chan<- error, report func(*process, wire.Event), gone func(*process)) {
	// The kernel ends the child with the thread that made it, so that thread
	// has to stay as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var stderr bytes.Buffer
	p.cmd.Stderr = &stderr
	p.cmd.SysProcAttr = childAttr()
	stdin, err1 := p.cmd.StdinPipe()
	stdout, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		started <- err
		return
	}
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid, p.stdin, p.out = p.cmd.Process.Pid, stdin, wire.NewWriter(stdin)
	started <- nil
	// One that is killed may leave half an event, which tells nothing.
	_ = wire.Each(stdout, func(e wire.Event) { report(p, e) })
	_, _ = io.Copy(io.Discard, stdout) // or it would wait for a reader for ever
	if p.err = p.cmd.Wait(); p.err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			p.err = fmt.Errorf("%w: %s", p.err, lastLine(said))
		}
	}
	gone(p)
	close(p.done)
}

// lastLine is where a program that fails says why.
func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// tell gives the worker an order. One that is gone gets none.
func (p *process) tell(o wire.Order) { _ = p.out.Write(o) }

// signal sends a signal to this process and to no other.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal worker %s, pid %d: %w", p.name, p.pid, err)
	}
	return nil
}

// dismiss lets workers leave and kills those that have not after a while. It
// returns when all are gone, and says how many had to be killed.
func dismiss(all []*process, patience time.Duration) (killed int) {
	for _, p := range all {
		_ = p.stdin.Close() // it may be closed already
		wake(p)             // who is stopped cannot leave
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	over := false
	for _, p := range all {
		if !over {
			select {
			case <-p.done:
				continue
			case <-timer.C:
				over = true
			}
		}
		if p.signal(os.Kill) == nil {
			killed++
		}
		<-p.done
	}
	return killed
}
