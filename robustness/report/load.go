package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/load"
)

// load returns the table of the load tests on a service.
func (d *Data) load(s Service) string {
	var rows []table.Row
	for _, r := range d.loads {
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

// moments returns the rows of one result. The last row has the verdict.
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

// lastMoment is the name of the last moment of a scenario that finished.
const lastMoment = "end"

// verdict describes whether all figures returned to their start values.
func verdict(r *load.Result) string {
	text := "all figures returned"
	switch {
	case len(r.NotBack) > 0:
		text = "**did not return**: " + strings.Join(r.NotBack, "; ")
	case r.Moments[len(r.Moments)-1].Name != lastMoment:
		text = "**did not finish**"
	}
	if r.Lost > 0 {
		text += fmt.Sprintf("; %d losses", r.Lost)
	}
	if r.Pending > 0 {
		text += fmt.Sprintf("; %d Unlocks did not wait for their acknowledgement", r.Pending)
	}
	return text
}
