package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

// terminal is an emulated terminal that records what was written to it.
type terminal struct {
	vt.MockTerm

	mu      sync.Mutex
	written bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.written.Write(p)
	t.mu.Unlock()
	return t.MockTerm.Write(p)
}

// restored reports whether the terminal left the alternate screen after it last entered it,
// and shows its cursor.
func (t *terminal) restored() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.written.String()
	return strings.LastIndex(s, "\x1b[?1049l") > strings.LastIndex(s, "\x1b[?1049h") && strings.Contains(s, "\x1b[?25h")
}

func opened(t *testing.T) (*terminal, tcell.Screen) {
	t.Helper()
	term := &terminal{MockTerm: vt.NewMockTerm(vt.MockOptSize{X: 80, Y: 24})}
	scr, err := tcell.NewTerminfoScreenFromTty(term, tcell.OptNegotiation(false), tcell.OptTerm("xterm"))
	require.NoError(t, err)
	require.NoError(t, scr.Init())
	return term, scr
}

// fake is a service with functions in place of a server.
type fake struct {
	locks func(context.Context) ([]schema.Queue, error)
	do    func(Command) (string, error)
}

func (f fake) Now() time.Time { return time.Unix(1e9, 0) }

func (f fake) Locks(ctx context.Context) ([]schema.Queue, error) { return f.locks(ctx) }

func (f fake) Queue(context.Context, string) (schema.Queue, error) { return lock("a", 1, 0), nil }

func (f fake) Do(_ context.Context, c Command) (string, error) { return f.do(c) }

var options = Options{Service: "memory", Interval: time.Millisecond, Timeout: time.Minute}

func TestTheTerminalIsRestoredOnEveryExit(t *testing.T) {
	good := func(context.Context) ([]schema.Queue, error) { return []schema.Queue{lock("a", 1, 0)}, nil }
	stuck := func(ctx context.Context) ([]schema.Queue, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, c := range map[string]struct {
		locks  func(context.Context) ([]schema.Queue, error)
		typed  string
		cancel bool
		want   error
		panics bool
	}{
		"q":                       {locks: good, typed: "q"},
		"^C":                      {locks: good, typed: "\x03"},
		"q while a read is stuck": {locks: stuck, typed: "q"},
		"signal":                  {locks: good, cancel: true},
		"no permission":           {locks: func(context.Context) ([]schema.Queue, error) { return nil, session.ErrDenied }, want: session.ErrDenied},
		"panic of a read":         {locks: func(context.Context) ([]schema.Queue, error) { panic("broken") }, panics: true},
		"panic of the view": {locks: func(context.Context) ([]schema.Queue, error) {
			return []schema.Queue{{Name: "a", Holders: 1}}, nil // a holder without an entry
		}, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			term, scr := opened(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel {
				cancel()
			}
			term.SendRaw([]byte(c.typed))
			run := func() { assert.ErrorIs(t, Run(ctx, scr, fake{locks: c.locks}, options), c.want) }

			if c.panics {
				assert.Panics(t, run)
			} else {
				run()
			}

			assert.True(t, term.restored())
		})
	}
}

func TestKeysDoWhatTheUserConfirms(t *testing.T) {
	term, scr := opened(t)
	did := make(chan Command, 1)
	svc := fake{
		locks: func(context.Context) ([]schema.Queue, error) { return []schema.Queue{lock("a", 1, 0)}, nil },
		do: func(c Command) (string, error) {
			did <- c
			return "", errors.New("no such thing")
		},
	}
	ended := make(chan error)
	go func() { ended <- Run(t.Context(), scr, svc, options) }()
	shows := func(want string) {
		t.Helper()
		hang.Until(t, func() bool { return strings.Contains(onScreen(term), want) }, "%q", want)
	}
	shows("host-a pid 100 (w0)")
	term.SendRaw([]byte("\r"))
	shows("a  mutex, 1 holder, 1 waiting")
	term.SendRaw([]byte("\x1b[B"))
	term.SendRaw([]byte("e"))
	shows("Evict host-a pid 101 (w1)")
	term.SendRaw([]byte("y"))
	assert.Equal(t, Command{Do: Evict, Name: "a", Token: 11}, <-did)
	shows("no such thing")
	term.SendRaw([]byte("q"))
	require.NoError(t, <-ended)
}

func TestAQueueThatCannotBeReadHidesNoOther(t *testing.T) {
	term, scr := opened(t)
	svc := fake{locks: func(context.Context) ([]schema.Queue, error) {
		return []schema.Queue{lock("a", 1, 0)}, &inspect.Unreadable{N: 1, First: fmt.Errorf("gpu: %w", session.ErrRefused)}
	}}
	ended := make(chan error)
	go func() { ended <- Run(t.Context(), scr, svc, options) }()
	for _, want := range []string{"host-a pid 100 (w0)", "gpu: refused by the service"} {
		hang.Until(t, func() bool { return strings.Contains(onScreen(term), want) }, "%q", want)
	}
	term.SendRaw([]byte("q"))
	require.NoError(t, <-ended)
}

func TestASlowReadIsShownBeforeItEnds(t *testing.T) {
	term, scr := opened(t)
	answer := make(chan []schema.Queue)
	svc := fake{locks: func(ctx context.Context) ([]schema.Queue, error) {
		select {
		case l := <-answer:
			return l, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	ended := make(chan error)
	go func() { ended <- Run(t.Context(), scr, svc, options) }()
	shows := func(want string, there bool) {
		t.Helper()
		hang.Until(t, func() bool { return strings.Contains(onScreen(term), want) == there }, "%q: %t", want, there)
	}
	answer <- []schema.Queue{lock("a", 1, 0)}
	shows("host-a pid 100 (w0)", true)

	shows("NO ANSWER SINCE", true)
	answer <- []schema.Queue{lock("a", 1, 0)}
	shows("NO ANSWER SINCE", false)
	term.SendRaw([]byte("q"))
	require.NoError(t, <-ended)
}

// onScreen returns what the terminal shows.
func onScreen(term *terminal) string {
	var b strings.Builder
	size, _ := term.WindowSize()
	for y := range size.Height {
		for x := range size.Width {
			b.WriteString(term.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
