// Package view makes the text that a demonstration shows: the live picture, the
// plain lines for whoever has no terminal, and the summary. What it shows is
// given to it; all but Screen is pure.
package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fatih/color"
)

// Tone is what a piece of text is to the reader. What it looks like is Paint's.
type Tone uint8

// The tones.
const (
	Plain Tone = iota
	Head       // a title
	Dim        // beside the point
	Good       // holds, kept
	Warn       // something was done to somebody
	Bad        // refused, violated
)

// Span is text of one tone.
type Span struct {
	Text string
	Tone Tone
}

// Line is one line of the terminal.
type Line []Span

// text returns a line of one tone.
func text(tone Tone, format string, args ...any) Line {
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

// cut shortens a line to a width, which counts what is seen, not what is
// written to give it a colour.
func (l Line) cut(width int) Line {
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

// NewPaint returns a Paint that uses colours, or one that does not.
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
		if c := p.colors[s.Tone]; c != nil && s.Text != "" {
			b.WriteString(c.Sprint(s.Text))
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// seconds is a duration as the picture shows it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// millis is a short duration to two digits.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// printable makes text from elsewhere harmless to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
