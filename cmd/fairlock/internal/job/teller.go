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

// teller tells people, on stderr, and programs, as JSON, how it goes. What it
// cannot write is lost: nobody may be listening any more, and the command counts.
// It is safe for concurrent use.
type teller struct {
	name  string
	quiet bool
	width int // of the terminal; 0 if stderr is none
	clock driver.Clock

	mu     sync.Mutex
	err    *os.File
	status *os.File // nil if nobody wants it
	shown  bool     // a line that is to be repainted stands on the terminal
	upset  bool     // the newest state was one to worry about
	place  place
	news   chan struct{} // has one place; full when place has changed
}

// place is where we stand in the line.
type place struct {
	joined   bool
	ahead    int
	rejoined error // why the place before was lost
}

func newTeller(stderr *os.File, o Options, c driver.Clock) (*teller, error) {
	t := &teller{
		name: o.Name, quiet: o.Quiet, clock: c, err: stderr, width: screen.Width(stderr), news: make(chan struct{}, 1),
	}
	if o.StatusFD == 0 {
		return t, nil
	}
	if o.StatusFD < 0 {
		return nil, exit.Errorf(exit.Usage, "--status-fd %d is no file descriptor", o.StatusFD)
	}
	t.status = os.NewFile(uintptr(o.StatusFD), "status")
	if _, err := t.status.Stat(); err != nil {
		return nil, exit.Errorf(exit.Usage, "--status-fd %d is not open: say for example %d>file", o.StatusFD, o.StatusFD)
	}
	keep(o.StatusFD)
	return t, nil
}

// close ends what is written as JSON.
func (t *teller) close() {
	t.clear()
	if t.status != nil && t.status.Fd() > 2 {
		_ = t.status.Close()
	}
}

// say tells people something, unless they want to be left alone.
func (t *teller) say(format string, args ...any) {
	if t.quiet {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	fmt.Fprintf(t.err, "fairlock: %s\n", screen.Printable(t.name+": "+fmt.Sprintf(format, args...)))
}

// alarm tells something that is told also to those who want to be left alone.
func (t *teller) alarm(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	fmt.Fprintf(t.err, "fairlock: %s\n", screen.Printable(t.name+": "+fmt.Sprintf(format, args...)))
}

// paint shows a line of which the next one takes the place.
func (t *teller) paint(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := screen.Line{{Text: screen.Printable(text)}}.Cut(t.width - 1)
	fmt.Fprintf(t.err, "\r\x1b[K%s", line)
	t.shown = true
}

// clear takes away a painted line.
func (t *teller) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
}

func (t *teller) wipe() {
	if t.shown {
		_, _ = io.WriteString(t.err, "\r\x1b[K")
		t.shown = false
	}
}

// report writes a status for programs.
func (t *teller) report(state string, change func(*schema.Status)) {
	if t.status == nil {
		return
	}
	s := schema.NewStatus(state, t.name, t.clock.Wall())
	if change != nil {
		change(&s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = show.Line(t.status, s) // see teller
}

// calm takes in whether all is well, and says whether it was.
func (t *teller) calm(now bool) (before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.upset = !t.upset, !now
	return before
}

// moved takes in a new place.
func (t *teller) moved(p place) {
	t.mu.Lock()
	t.place = p
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *teller) where() place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.place
}

// hooks are what the library tells us.
func (j *job) hooks() session.Hooks {
	renewed := func(e session.Event) { j.window.saw(e.Left) }
	moved := func(_ context.Context, e session.Event) { j.tell.moved(place{joined: true, ahead: e.Ahead}) }
	return session.Hooks{
		SessionOpened:  renewed,
		SessionRenewed: renewed,
		Joined:         moved,
		Position:       moved,
		Rejoined:       func(_ context.Context, e session.Event) { j.tell.moved(place{rejoined: e.Err}) },
	}
}
