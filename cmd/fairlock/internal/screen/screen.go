// Package screen writes coloured text to terminals: lines, and pictures that are redrawn in
// place.
package screen

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// The control sequences of terminals.
const (
	enter  = "\x1b[?1049h\x1b[?25l\x1b[2J" // the alternate screen, no cursor, clear
	leave  = "\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	wipe   = "\x1b[2J"
	toEnd  = "\x1b[K" // of the line
	toLast = "\x1b[J" // of the screen
)

// Screen draws pictures in place on a terminal. It uses the terminal's alternate screen, so
// Close restores what was shown before.
type Screen struct {
	f             *os.File
	paint         Paint
	width, height int
}

// Capable reports whether f is a terminal that can show pictures in place and has at least
// this size.
func Capable(f *os.File, width, height int) bool {
	t := os.Getenv("TERM")
	if t == "" || t == "dumb" || !IsTerminal(f) {
		return false
	}
	w, h, err := term.GetSize(int(f.Fd()))
	return err == nil && w >= width && h >= height
}

// Colours reports whether to write to f with colours: f is a terminal that shows them, and
// NO_COLOR is not set.
func Colours(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(f)
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Width returns how many columns f has if it is a terminal, and 0 if it is not.
func Width(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Open switches the terminal to the alternate screen. Close must be called in any case.
func Open(f *os.File, paint Paint) *Screen {
	_, _ = io.WriteString(f, enter) // a terminal that is gone shows nothing
	return &Screen{f: f, paint: paint}
}

// Draw shows a picture in the terminal's current size, with one write, so that it does not
// flicker. The frame has at most height lines, each shorter than width: after the last
// column was written, terminals differ in what EL (erase to the right) erases.
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

// picture returns the text to write for a frame.
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

// Close restores the terminal. It may be called more than once.
func (s *Screen) Close() {
	if s.f != nil {
		_, _ = io.WriteString(s.f, leave)
		s.f = nil
	}
}
