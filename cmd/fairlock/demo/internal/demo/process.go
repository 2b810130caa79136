package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	proc "github.com/fairlock/fairlock/internal/process"
)

// process is a worker process.
type process struct {
	*proc.Process
	name string
	pid  int
	out  *wire.Writer
	done chan struct{} // closed when the process was reaped and onExit has returned
	err  error         // why it ended; read it after done
}

// spawn starts a worker. It calls onEvent for each event, one after the other. When the
// process was reaped, it calls onExit, after all events.
//
//nolint:contextcheck // the process ends with its stdin or by a signal, not with a context
func spawn(exe, name string, args []string, onEvent func(*process, wire.Event), onExit func(*process)) (*process, error) {
	p := proc.StartPiped(exec.CommandContext(context.Background(), exe, args...))
	w := &process{Process: p, name: name, pid: p.Pid(), out: wire.NewWriter(p), done: make(chan struct{})}
	if w.pid == 0 {
		return nil, fmt.Errorf("start worker %s: %w", name, p.Wait())
	}
	go func() { // ends with the process
		// A killed worker may leave half an event, which is ignored.
		_ = wire.Each(p, func(e wire.Event) { onEvent(w, e) })
		_, _ = io.Copy(io.Discard, p) // otherwise the process may block on a full pipe for ever
		w.err = p.Wait()
		if w.err != nil {
			stderr := strings.TrimSpace(p.Stderr())
			if stderr != "" {
				w.err = fmt.Errorf("%w: %s", w.err, lastLine(stderr))
			}
		}
		onExit(w)
		close(w.done)
	}()
	return w, nil
}

// lastLine returns the last line, where a program that fails writes the reason.
func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// send sends an order to the worker, if the worker still runs.
func (p *process) send(o wire.Order) { _ = p.out.Write(o) }

// wrapSignal adds the worker to the error of a signal.
func (p *process) wrapSignal(err error) error {
	if err != nil {
		err = fmt.Errorf("signal worker %s, pid %d: %w", p.name, p.pid, err)
	}
	return err
}

// dismiss lets workers leave, and kills those that have not left when ctx ends. When it
// returns, all have ended. It returns the number that it had to kill.
func dismiss(ctx context.Context, all []*process) (killed int) {
	for _, p := range all {
		p.CloseInput()
		_ = p.Resume() // a stopped worker cannot leave
	}
	for _, p := range all {
		select {
		case <-p.done:
			continue
		case <-ctx.Done():
		}
		if p.Signal(os.Kill) == nil {
			killed++
		}
		<-p.done
	}
	return killed
}
