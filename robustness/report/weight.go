package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/load"
)

// weight tells what thousands of waiters, locks, sessions and names have left.
func (d *Data) weight(s Service) string {
	var rows []table.Row
	for _, r := range d.weights {
		if r.Service == s.Name {
			rows = append(rows, moments(r)...)
		}
	}
	if len(rows) == 0 {
		return "`make load`: " + notRun + "."
	}
	head := table.Row{"", "moment", "after", "heap KiB", "goroutines", "files", "keys", "fences", "watches", "sessions", "streams"}
	return markdown(head, rows...)
}

// moments are the rows of one result; the last says what became of it.
func moments(r *load.Result) []table.Row {
	var rows []table.Row
	for i, m := range r.Moments {
		name := ""
		if i == 0 {
			name = fmt.Sprintf("**%s**, n = %d, %d sessions", r.Scenario, r.N, r.Sessions)
			if r.Sessions == 1 {
				name = strings.TrimSuffix(name, "s")
			}
		}
		f := m.Figures
		rows = append(rows, table.Row{
			name, m.Name, m.At.Round(100 * time.Millisecond).String(), f.Heap >> 10, f.Goroutines, f.Files,
			f.Keys, f.Fences, f.Watches, f.Server.Sessions, f.Streams,
		})
	}
	if len(rows) == 0 {
		return nil
	}
	return append(rows, table.Row{"", verdict(r), "", "", "", "", "", "", "", "", ""})
}

// lastMoment is that of a scenario that came to its end.
const lastMoment = "end"

// verdict says whether everything was where it began.
func verdict(r *load.Result) string {
	said := "all is back"
	switch {
	case len(r.NotBack) > 0:
		said = "**not back**: " + strings.Join(r.NotBack, "; ")
	case r.Moments[len(r.Moments)-1].Name != lastMoment:
		said = "**did not come to its end**"
	}
	if r.Lost > 0 {
		said += fmt.Sprintf("; %d losses", r.Lost)
	}
	if r.Pending > 0 {
		said += fmt.Sprintf("; %d Unlocks did not wait for their acknowledgement", r.Pending)
	}
	return said
}
