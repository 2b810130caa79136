package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fatih/color"
)

// Tone is the meaning of a piece of text. Paint gives each tone its colour.
type Tone uint8

// The tones.
const (
	Plain Tone = iota
	Head       // a title
	Dim        // less important
	Good       // holds, kept
	Warn       // something unusual
	Bad        // refused, violated
)

// Span is a piece of text with one tone.
type Span struct {
	Text string
	Tone Tone
}

// Line is one line of the terminal.
type Line []Span

// Text returns a line with one tone.
func Text(tone Tone, format string, args ...any) Line {
	return Line{{Text: fmt.Sprintf(format, args...), Tone: tone}}
}

// String returns the line without tones.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Cut shortens a line to a width in visible characters, without the sequences for
// colours.
func (l Line) Cut(width int) Line {
	var out Line
	for _, s := range l {
		n := utf8.RuneCountInString(s.Text)
		if n > width {
			s.Text, n = string([]rune(s.Text)[:width]), width
		}
		out = append(out, s)
		width -= n
	}
	return out
}

// Paint gives tones their colours.
type Paint struct{ colors map[Tone]*color.Color }

// NewPaint returns a Paint with or without colours.
func NewPaint(colours bool) Paint {
	if !colours {
		return Paint{}
	}
	p := Paint{colors: map[Tone]*color.Color{
		Head: color.New(color.Bold),
		Dim:  color.New(color.Faint),
		Good: color.New(color.FgGreen, color.Bold),
		Warn: color.New(color.FgYellow, color.Bold),
		Bad:  color.New(color.FgRed, color.Bold),
	}}
	for _, c := range p.colors {
		c.EnableColor()
	}
	return p
}

// Line returns the line with its colours.
func (p Paint) Line(l Line) string {
	var b strings.Builder
	for _, s := range l {
		c := p.colors[s.Tone]
		if c != nil && s.Text != "" {
			b.WriteString(c.Sprint(s.Text))
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Printable replaces the characters of s that are not printable, so that text from other
// programs cannot control the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Print writes lines, each with a newline, cut to width unless that is 0.
func Print(w io.Writer, p Paint, width int, lines ...Line) {
	for _, l := range lines {
		if width > 0 {
			l = l.Cut(width)
		}
		fmt.Fprintln(w, p.Line(l))
	}
}
