package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	proc "github.com/fairlock/fairlock/internal/process"
)

// process is one worker in a process of its own.
type process struct {
	*proc.Process
	name string
	pid  int
	out  *wire.Writer
	gone chan struct{} // closed when it was reaped and all its events have been told
	err  error         // why it went; to be read after gone
}

// spawn starts a worker. Its events go to report, one after the other; gone is
// called when it was reaped and all its events have been told.
//
//nolint:contextcheck // it ends by its input or by a signal, not with a context
func spawn(exe, name string, args []string, report func(*process, wire.Event), gone func(*process)) (*process, error) {
	p := proc.StartPiped(exec.CommandContext(context.Background(), exe, args...))
	w := &process{Process: p, name: name, pid: p.Pid(), out: wire.NewWriter(p), gone: make(chan struct{})}
	if w.pid == 0 {
		return nil, fmt.Errorf("start worker %s: %w", name, p.Wait())
	}
	go func() { // ends with the process
		// One that is killed may leave half an event, which tells nothing.
		_ = wire.Each(p, func(e wire.Event) { report(w, e) })
		_, _ = io.Copy(io.Discard, p) // or it would wait for a reader for ever
		if w.err = p.Wait(); w.err != nil {
			if said := strings.TrimSpace(p.Stderr()); said != "" {
				w.err = fmt.Errorf("%w: %s", w.err, lastLine(said))
			}
		}
		gone(w)
		close(w.gone)
	}()
	return w, nil
}

// lastLine is where a program that fails says why.
func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// tell gives the worker an order. One that is gone gets none.
func (p *process) tell(o wire.Order) { _ = p.out.Write(o) }

// named says in the error of a signal which worker it was for.
func (p *process) named(err error) error {
	if err != nil {
		err = fmt.Errorf("signal worker %s, pid %d: %w", p.name, p.pid, err)
	}
	return err
}

// dismiss lets workers leave, and kills those that have not when ctx ends. It
// returns when all are gone, and returns how many it had to kill.
func dismiss(ctx context.Context, all []*process) (killed int) {
	for _, p := range all {
		p.CloseInput()
		_ = p.Resume() // a worker that is stopped cannot leave
	}
	for _, p := range all {
		select {
		case <-p.gone:
			continue
		case <-ctx.Done():
		}
		if p.Signal(os.Kill) == nil {
			killed++
		}
		<-p.gone
	}
	return killed
}
