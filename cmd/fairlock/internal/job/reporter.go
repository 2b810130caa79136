package job

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// reporter reports progress: to people on stderr, and to programs as JSON. It ignores
// errors of writes: the reader may be gone, and the command must go on. It waits for no
// reader, except in flush and close. It is safe for concurrent use.
type reporter struct {
	name  string
	quiet bool
	width int // of the terminal; 0 if stderr is none
	clock driver.Clock

	mu        sync.Mutex
	err       *outbox
	status    *outbox  // for the JSON; nil without --status-fd
	file      *os.File // that of status
	unread    int      // how many messages err did not keep since the last that it kept
	reported  bool     // a message has reported that status did not keep a state
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
	r := &reporter{name: o.Name, quiet: o.Quiet, clock: c, width: screen.Width(stderr), changed: make(chan struct{}, 1)}
	switch {
	case o.StatusFD < 0:
		return nil, exit.Errorf(exit.Usage, "--status-fd %d is no file descriptor", o.StatusFD)
	case o.StatusFD > 0:
		f := os.NewFile(uintptr(o.StatusFD), "status")
		if _, err := f.Stat(); err != nil {
			return nil, exit.Errorf(exit.Usage, "--status-fd %d is not open: redirect it, for example %d>file", o.StatusFD, o.StatusFD)
		}
		closeOnExec(o.StatusFD)
		r.status = newOutbox(f)
		if o.StatusFD > 2 {
			r.file = f
		}
	}
	r.err = newOutbox(stderr)
	return r, nil
}

// flushTimeout bounds the wait for readers.
const flushTimeout = time.Second

// flush blocks until all reports are written, but at most for flushTimeout.
func (r *reporter) flush() {
	end := make(chan struct{})
	t := time.AfterFunc(flushTimeout, func() { close(end) })
	defer t.Stop()
	r.err.flush(end)
	if r.status != nil {
		r.status.flush(end)
	}
}

// close clears the terminal line, writes what is left, and closes the file for JSON. No
// other call may follow.
func (r *reporter) close() {
	r.clear()
	r.flush()
	r.err.close()
	if r.status != nil {
		r.status.close()
	}
	if r.file != nil {
		_ = r.file.Close()
	}
}

// info prints a message, unless --quiet is given.
func (r *reporter) info(format string, args ...any) {
	if !r.quiet {
		r.warn(format, args...)
	}
}

// warn prints a message, even if --quiet is given.
func (r *reporter) warn(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(fmt.Sprintf(format, args...))
}

// print prints a message, and how many before it were left out. The caller holds mu.
func (r *reporter) print(text string) {
	r.wipe()
	text = "fairlock: " + screen.Printable(r.name+": "+text) + "\n"
	if r.unread > 0 {
		text = fmt.Sprintf("fairlock: %d messages are left out here: the reader did not read\n", r.unread) + text
	}
	if _, err := io.WriteString(r.err, text); err != nil {
		r.unread++
		return
	}
	r.unread = 0
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
	if err := show.Line(r.status, s); err != nil && !r.reported {
		r.reported = true
		r.print("nothing reads --status-fd: states are left out")
	}
}

// setHealthy records whether the newest state is Held, and returns whether the one before
// was.
func (r *reporter) setHealthy(now bool) (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.unhealthy = !r.unhealthy, !now
	return before
}

// setPlace records a new place. The reason of a rejoin stays until it is taken.
func (r *reporter) setPlace(p place) {
	r.mu.Lock()
	if p.rejoined == nil {
		p.rejoined = r.place.rejoined
	}
	r.place = p
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// takePlace returns our place, and the reason of a rejoin once.
func (r *reporter) takePlace() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.place
	r.place.rejoined = nil
	return p
}

// forgetPlace forgets the place of an earlier request.
func (r *reporter) forgetPlace() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = place{}
	select {
	case <-r.changed:
	default:
	}
}

// hooks returns the hooks for the session.
func (j *job) hooks() session.Hooks {
	moved := func(_ context.Context, e session.Event) { j.rep.setPlace(place{joined: true, ahead: e.Ahead}) }
	return session.Hooks{
		Joined:   moved,
		Position: moved,
		Rejoined: func(_ context.Context, e session.Event) { j.rep.setPlace(place{rejoined: e.Err}) },
	}
}
