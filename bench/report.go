package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// A report is what a run on one service leaves behind.
type report struct {
	service *service
	plan    plan
	record  *record

	Date     time.Time `json:"date"`
	Took     string    `json:"took"`
	Flags    string    `json:"flags"`
	Go       string    `json:"go"`
	Service  string    `json:"service"` // with its version
	System   string    `json:"system"`
	CPUs     int       `json:"cpus"`
	Load     string    `json:"load"` // of the machine, while it ran
	Verdicts []verdict `json:"goals"`
	Figures  []*figure `json:"figures"`
}

func newReport(b *bench, flags string) *report {
	return &report{
		service: &b.service, plan: b.plan, record: b.record,
		Date: time.Now().UTC().Truncate(time.Second), Took: time.Since(b.start).Round(time.Second).String(),
		Flags: flags, Go: runtime.Version(), Service: b.Name + " " + b.version,
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Load: load(),
		Verdicts: judge(&b.service, b.record), Figures: b.record.figures,
	}
}

func (r *report) title() string {
	return fmt.Sprintf("%s, clients and servers on one machine with %d CPUs (load %s), %s, %s, %s in %s, flags %q",
		r.Service, r.CPUs, r.Load, r.Go, r.System, r.Date.Format("2006-01-02"), r.Took, r.Flags)
}

// load is how busy the machine was in the last minutes: much above the load that
// this program makes, figures say little. Only Linux tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

const legend = "Medians over rounds (least – greatest). A ratio is ours : theirs, taken round by round."

// notes is what must be known to read the table of a scenario; usually nothing.
func (r *report) notes(scenario string) string {
	p := r.plan.line
	switch scenario {
	case "sharing":
		return sharingNote
	case "line":
	default:
		return ""
	}
	return fmt.Sprintf("Of a line longer than %d the first %[1]d hand-offs are measured, on both sides. "+
		"Of %s at most %d wait in it; behind them stand entries that nobody waits for, which the servers cannot tell from theirs.\n\n",
		p.bound, r.service.Peer, p.peers)
}

// tables renders all figures, a table for each scenario.
func (r *report) tables(heading string, render func(table.Writer) string) string {
	var b strings.Builder
	for _, s := range scenarios() {
		t := figuresTable(r.service, r.record, s)
		if s.name == "sharing" {
			t = sharingTable(r)
		}
		if t != nil {
			fmt.Fprintf(&b, "%s%s: %s\n\n%s%s\n\n", heading, s.name, s.about, r.notes(s.name), render(t))
		}
	}
	return b.String()
}

// print writes the tables for people at a terminal.
func (r *report) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n%s\n%s\n\n%s%s\n", r.title(), legend,
		r.tables("", table.Writer.Render), goalsTable(r.Verdicts).Render())
	return err
}

// write leaves everything in a directory, unless that is "", in files that are
// called after the service.
func (r *report) write(dir string, progress io.Writer) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	figures, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	markdown := fmt.Sprintf("# Measured on %s\n\n%s\n\n%s\n\n## Goals\n\n%s\n\n%s",
		r.service.Name, r.title(), legend,
		goalsTable(r.Verdicts).RenderMarkdown(), r.tables("## ", table.Writer.RenderMarkdown))
	var written []string
	save := func(name string, text []byte) error {
		path := filepath.Join(dir, r.service.flag+name)
		written = append(written, path)
		return os.WriteFile(path, text, 0o644)
	}
	err = errors.Join(save(".json", append(figures, '\n')), save(".md", []byte(markdown)))
	if svg, e := drawHandOffs(r.service, r.record); e != nil {
		err = errors.Join(err, e)
	} else if svg != nil {
		err = errors.Join(err, save("-handoff.svg", svg))
	}
	fmt.Fprintln(progress, "written:", strings.Join(written, ", "))
	return err
}
