package job

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// reporter reports progress: to people on stderr, and to programs as JSON. It ignores
// errors of writes: the reader may be gone, and the command must go on. It is safe for
// concurrent use.
type reporter struct {
	name  string
	quiet bool
	width int // of the terminal; 0 if stderr is none
	clock driver.Clock

	mu        sync.Mutex
	err       *os.File
	status    *os.File // for the JSON; nil without --status-fd
	shown     bool     // the terminal shows a painted line
	unhealthy bool     // the newest state was not Held
	place     place
	changed   chan struct{} // has a buffer of one; full when place has changed
}

// place is our place in the queue.
type place struct {
	joined   bool
	ahead    int
	rejoined error // why the previous place was lost
}

func newReporter(stderr *os.File, o Options, c driver.Clock) (*reporter, error) {
	r := &reporter{
		name: o.Name, quiet: o.Quiet, clock: c, err: stderr, width: screen.Width(stderr), changed: make(chan struct{}, 1),
	}
	if o.StatusFD == 0 {
		return r, nil
	}
	if o.StatusFD < 0 {
		return nil, exit.Errorf(exit.Usage, "--status-fd %d is no file descriptor", o.StatusFD)
	}
	r.status = os.NewFile(uintptr(o.StatusFD), "status")
	if _, err := r.status.Stat(); err != nil {
		return nil, exit.Errorf(exit.Usage, "--status-fd %d is not open: redirect it, for example %d>file", o.StatusFD, o.StatusFD)
	}
	closeOnExec(o.StatusFD)
	return r, nil
}

// close clears the terminal line and closes the file for JSON.
func (r *reporter) close() {
	r.clear()
	if r.status != nil && r.status.Fd() > 2 {
		_ = r.status.Close()
	}
}

// info prints a message, unless --quiet is given.
func (r *reporter) info(format string, args ...any) {
	if r.quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wipe()
	fmt.Fprintf(r.err, "fairlock: %s\n", screen.Printable(r.name+": "+fmt.Sprintf(format, args...)))
}

// warn prints a message, even if --quiet is given.
func (r *reporter) warn(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wipe()
	fmt.Fprintf(r.err, "fairlock: %s\n", screen.Printable(r.name+": "+fmt.Sprintf(format, args...)))
}

// paint shows a line that the next one replaces.
func (r *reporter) paint(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := screen.Line{{Text: screen.Printable(text)}}.Cut(r.width - 1)
	fmt.Fprintf(r.err, "\r\x1b[K%s", line)
	r.shown = true
}

// clear erases a painted line.
func (r *reporter) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wipe()
}

func (r *reporter) wipe() {
	if r.shown {
		_, _ = io.WriteString(r.err, "\r\x1b[K")
		r.shown = false
	}
}

// report writes a status as JSON.
func (r *reporter) report(state string, change func(*schema.Status)) {
	if r.status == nil {
		return
	}
	s := schema.NewStatus(state, r.name, r.clock.Wall())
	if change != nil {
		change(&s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = show.Line(r.status, s) // see reporter
}

// setHealthy records whether the newest state is Held, and returns whether the one before
// was.
func (r *reporter) setHealthy(now bool) (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.unhealthy = !r.unhealthy, !now
	return before
}

// setPlace records a new place.
func (r *reporter) setPlace(p place) {
	r.mu.Lock()
	r.place = p
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *reporter) currentPlace() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place
}

// hooks returns the hooks for the session.
func (j *job) hooks() session.Hooks {
	renewed := func(e session.Event) { j.window.observe(e.Left) }
	moved := func(_ context.Context, e session.Event) { j.rep.setPlace(place{joined: true, ahead: e.Ahead}) }
	return session.Hooks{
		SessionOpened:  renewed,
		SessionRenewed: renewed,
		Joined:         moved,
		Position:       moved,
		Rejoined:       func(_ context.Context, e session.Event) { j.rep.setPlace(place{rejoined: e.Err}) },
	}
}
