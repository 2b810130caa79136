package load

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// optional returns a figure that some servers do not report, or "" if it is 0.
func optional(n int64) any {
	if n == 0 {
		return ""
	}
	return n
}

// Table writes a result for people.
func Table(w io.Writer, r *Result) {
	fmt.Fprintf(w, "\n%v\n", r)
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{
		"", "after", "heap KiB", "goroutines", "files",
		"keys", "fences", "watches", "sessions", "streams", "server files", "server heap KiB",
	})
	for _, m := range r.Moments {
		f := m.Figures
		t.AppendRow(table.Row{
			m.Name, m.At.Round(10 * time.Millisecond), f.Heap >> 10, f.Goroutines, f.Files,
			f.Keys, f.Fences, f.Watches, f.Server.Sessions, f.Streams, f.Server.Files, optional(f.Server.Heap >> 10),
		})
	}
	t.Render()
	var phases []string
	for _, p := range r.Phases {
		phases = append(phases, fmt.Sprintf("%s %v", p.Name, p.Took.Round(time.Millisecond)))
	}
	fmt.Fprintf(w, "%s\n", strings.Join(phases, ", "))
	if r.Pending > 0 {
		fmt.Fprintf(w, "%d Unlocks did not wait for their acknowledgement\n", r.Pending)
	}
	if r.Lost+r.Logged > 0 {
		fmt.Fprintf(w, "%d losses, %d warnings, such as\n  %s\n", r.Lost, r.Logged, strings.Join(r.Messages, "\n  "))
	}
	for _, b := range r.NotBack {
		fmt.Fprintf(w, "NOT BACK %s\n", b)
	}
}
