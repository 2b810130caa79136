// Package report draws the results of trials, load tests and simulations: as tables in
// Markdown, and as a plot. It runs nothing and judges nothing. The tables show what was
// not run, and list the files that could not be read.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/trial"
)

// Service is a service in the report.
type Service struct {
	Name  string // as in results
	Title string
	Peers []string // the locks of other libraries that were tested on it

	// Without names the kinds of faults that do not exist on this service.
	Without []string

	// Transports are the ways in which its servers can serve clients; none if there is only
	// one. Results that name none are of the first.
	Transports []string
}

// locks returns Fairlock and the peers.
func (s Service) locks() []string { return append([]string{trial.Ours}, s.Peers...) }

// The marks in a page. The report is drawn between them.
const (
	begin = "<!-- robustness:begin -->"
	end   = "<!-- robustness:end -->"
)

// errMarks reports that a page has no place for the report.
var errMarks = errors.New("report: the page must have exactly one " + begin + ", and after it exactly one " + end)

// Into returns a page with a text between its marks, which replaces what is there.
func Into(page []byte, text string) ([]byte, error) {
	before, rest, first := bytes.Cut(page, []byte(begin))
	_, after, second := bytes.Cut(rest, []byte(end))
	if !first || !second || bytes.Contains(after, []byte(begin)) || bytes.Contains(after, []byte(end)) {
		return nil, errMarks
	}
	return slices.Concat(before, []byte(begin+"\n\n"+strings.TrimSpace(text)+"\n\n"+end), after), nil
}

// Summary returns how many trials each lock has had, and how many violations.
func (d *Data) Summary(services []Service) string {
	var rows []table.Row
	for _, s := range services {
		for _, lock := range s.locks() {
			y := d.tallied(s.Name, lock)
			if y.trials == 0 {
				rows = append(rows, table.Row{s.Title, code(lock), notRun})
				continue
			}
			rows = append(rows, table.Row{s.Title, code(lock), y.trials, y.hit, y.violated + y.missedViolated, y.grants, y.resource.Lost})
		}
	}
	return markdown(table.Row{"service", "lock", "trials", "hit", "with violations", "grants", "updates lost"}, rows...)
}

// Markdown returns all tables.
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
		section("Fairlock on "+s.Title, d.ours(s), d.transports(s), d.figures(s))
	}
	for _, s := range services {
		section("Compared with the peers on "+s.Title, d.compared(s), d.commands(s))
	}
	section("Simulation", d.simulated())
	for _, s := range services {
		section("Load on "+s.Title, d.load(s))
	}
	return b.String()
}
