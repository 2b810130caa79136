// Package screen is text with colours for terminals: lines of it, and pictures that
// are drawn again in place. Nothing of it knows what is shown.
package screen

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// What terminals understand.
const (
	enter  = "\x1b[?1049h\x1b[?25l\x1b[2J" // the other screen, no cursor, clear
	leave  = "\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	wipe   = "\x1b[2J"
	toEnd  = "\x1b[K" // of the line
	toLast = "\x1b[J" // of the screen
)

// Screen draws pictures in place on a terminal. It uses the terminal's other
// screen, so that what was there before is there again after Close.
type Screen struct {
	f             *os.File
	paint         Paint
	width, height int
}

// Capable says whether f is a terminal that can show live pictures of some size.
func Capable(f *os.File, width, height int) bool {
	if t := os.Getenv("TERM"); t == "" || t == "dumb" || !IsTerminal(f) {
		return false
	}
	w, h, err := term.GetSize(int(f.Fd()))
	return err == nil && w >= width && h >= height
}

// Colours says whether f is to be written with colours: somebody looks at it, at
// something that knows them, and has not set NO_COLOR.
func Colours(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(f)
}

// IsTerminal says whether somebody may be looking at f.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Width is how many columns f has if it is a terminal, and 0 if it is none.
func Width(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Open takes the terminal over. Close must be called, whatever happens.
func Open(f *os.File, paint Paint) *Screen {
	_, _ = io.WriteString(f, enter) // a terminal that is gone shows nothing
	return &Screen{f: f, paint: paint}
}

// Draw shows a picture in the terminal's present size, with one write, so that
// it does not flicker. The frame has at most height lines, each shorter than width:
// a terminal that has written its last column is between two lines, and what
// clears the rest of the line there differs from one to the other.
func (s *Screen) Draw(frame func(width, height int) []Line) {
	w, h, err := term.GetSize(int(s.f.Fd()))
	if err != nil {
		return
	}
	var b strings.Builder
	if w != s.width || h != s.height {
		s.width, s.height = w, h
		b.WriteString(wipe)
	}
	b.WriteString(picture(frame(w, h), s.paint))
	_, _ = io.WriteString(s.f, b.String())
}

// picture is what is written for a frame.
func picture(lines []Line, paint Paint) string {
	var b strings.Builder
	b.WriteString(home)
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(paint.Line(l))
		b.WriteString(toEnd)
	}
	b.WriteString(toLast)
	return b.String()
}

// Close gives the terminal back. It may be called again.
func (s *Screen) Close() {
	if s.f != nil {
		_, _ = io.WriteString(s.f, leave)
		s.f = nil
	}
}
