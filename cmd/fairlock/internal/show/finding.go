package show

import (
	"fmt"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// Finding returns a finding as lines of text, with the advice below.
func Finding(f schema.Finding) []screen.Line {
	tone := screen.Good
	switch f.Level {
	case schema.Warn:
		tone = screen.Warn
	case schema.Bad:
		tone = screen.Bad
	}
	out := []screen.Line{{
		{Text: fmt.Sprintf("%-7s  ", f.Level), Tone: tone},
		{Text: fmt.Sprintf("%-10s  ", f.Check), Tone: screen.Dim},
		{Text: screen.Printable(f.Text), Tone: screen.Plain},
	}}
	if f.Advice != "" {
		out = append(out, screen.Line{{Text: fmt.Sprintf("%21s%s", "", screen.Printable(f.Advice)), Tone: screen.Dim}})
	}
	return out
}
