package top

import (
	"fmt"
	"os"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// OpenScreen takes over the terminal of this process.
func OpenScreen(colours bool) (tcell.Screen, error) {
	// A locale that tcell does not know is shown as ASCII.
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII)
	// The table needs no feature that has to be negotiated. If top quit before the
	// terminal answered, the shell would read the answer as typed text.
	options := []tcell.TerminfoScreenOption{tcell.OptNegotiation(false), tcell.OptKeyboardProtocol(tcell.LegacyKeyboard), tcell.OptSanitizeContent(true)}
	if !colours || os.Getenv("NO_COLOR") != "" {
		options = append(options, tcell.OptColors(0))
	}
	// Not stdin: tcell would leave it non-blocking, for the shell too.
	tty, err := tcell.NewDevTty()
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	scr, err := tcell.NewTerminfoScreenFromTty(tty, options...)
	if err == nil {
		err = scr.Init()
	}
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	return scr, nil
}

// event translates an event of the terminal. It returns nil for an event without a
// meaning here.
func event(scr tcell.Screen, e tcell.Event) (Event, error) {
	switch e := e.(type) {
	case *tcell.EventResize:
		scr.Sync()
		w, h := scr.Size()
		return Resize{Width: w, Height: h}, nil
	case *tcell.EventError:
		return nil, fmt.Errorf("read the terminal: %w", e)
	case *tcell.EventKey:
		return key(e), nil
	}
	return nil, nil
}

func key(e *tcell.EventKey) Event {
	named := map[tcell.Key]Key{
		tcell.KeyUp: Up, tcell.KeyDown: Down, tcell.KeyPgUp: PageUp, tcell.KeyPgDn: PageDown, tcell.KeyHome: Home, tcell.KeyEnd: End,
		tcell.KeyEnter: Enter, tcell.KeyEscape: Escape, tcell.KeyBackspace: Backspace, tcell.KeyBackspace2: Backspace, tcell.KeyCtrlC: Interrupt,
	}
	if k, ok := named[e.Key()]; ok {
		return k
	}
	if e.Key() == tcell.KeyRune {
		return Key(e.Str())
	}
	return nil
}

// draw shows rows. tcell sends only the cells that have changed.
func draw(scr tcell.Screen, rows []Row) {
	scr.Clear()
	width, _ := scr.Size()
	for y, row := range rows {
		x := 0
		for _, span := range row.Line {
			st := style(span.Tone).Reverse(row.Selected)
			for rest := span.Text; rest != "" && x < width; {
				var n int
				rest, n = scr.Put(x, y, rest, st)
				x += max(n, 1)
			}
		}
		if row.Selected {
			scr.FillArea(x, y, width-x, 1, ' ', tcell.StyleDefault.Reverse(true))
		}
	}
	scr.Show()
}

// style returns the style of a tone: a colour, and an attribute for terminals without
// colours.
func style(t screen.Tone) tcell.Style {
	s := tcell.StyleDefault
	switch t {
	case screen.Head:
		return s.Bold(true)
	case screen.Dim:
		return s.Dim(true)
	case screen.Good:
		return s.Foreground(color.Green)
	case screen.Warn:
		return s.Foreground(color.Olive).Bold(true)
	case screen.Bad:
		return s.Foreground(color.Maroon).Bold(true)
	case screen.Plain:
	}
	return s
}
