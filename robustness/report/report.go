// Package report draws what has come of trials, of weight and of simulations: as
// tables in Markdown, and as a plot. It starts nothing and judges nothing. What
// was not run is told as that, and what could not be read too.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/robustness/trial"
)

// Service is one that is reported on, with the locks of others' that were tried
// there beside Fairlock's.
type Service struct {
	Name  string // as in results
	Title string
	Peers []string

	// Without are the kinds of faults that it does not know.
	Without []string
}

// locks are Fairlock and the peers.
func (s Service) locks() []string { return append([]string{trial.Ours}, s.Peers...) }

// The marks in a page between which all is drawn.
const (
	begin = "<!-- robustness:begin -->"
	end   = "<!-- robustness:end -->"
)

// errMarks says that a page has no place to draw in.
var errMarks = errors.New("report: the page has not one " + begin + " before one " + end)

// Into puts a text between the marks of a page, in place of what is there.
func Into(page []byte, text string) ([]byte, error) {
	before, rest, first := bytes.Cut(page, []byte(begin))
	_, after, second := bytes.Cut(rest, []byte(end))
	if !first || !second || bytes.Contains(after, []byte(begin)) || bytes.Contains(after, []byte(end)) {
		return nil, errMarks
	}
	return slices.Concat(before, []byte(begin+"\n\n"+strings.TrimSpace(text)+"\n\n"+end), after), nil
}

// Markdown is all tables.
func (d *Data) Markdown(services []Service) string {
	var b strings.Builder
	section := func(title string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
		if len(parts) > 0 {
			fmt.Fprintf(&b, "## %s\n\n%s\n\n", title, strings.Join(parts, "\n\n"))
		}
	}
	section("The runs", d.runs(services), d.unread())
	for _, s := range services {
		section("Fairlock on "+s.Title, d.ours(s), d.figures(s))
	}
	for _, s := range services {
		section("Compared with the peers on "+s.Title, d.beside(s), d.commands(s))
	}
	section("Simulation", d.simulated())
	for _, s := range services {
		section("Weight on "+s.Title, d.weight(s))
	}
	return b.String()
}
