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
	"go.etcd.io/etcd/api/v3/version"
)

// A report is what a run leaves behind.
type report struct {
	record *record

	Date     time.Time `json:"date"`
	Took     string    `json:"took"`
	Flags    string    `json:"flags"`
	Go       string    `json:"go"`
	Etcd     string    `json:"etcd"`
	System   string    `json:"system"`
	CPUs     int       `json:"cpus"`
	Load     string    `json:"load"` // of the machine, while it ran
	Verdicts []verdict `json:"goals"`
	Figures  []*figure `json:"figures"`
}

func newReport(r *record, flags string, took time.Duration) *report {
	return &report{
		record: r, Date: time.Now().UTC().Truncate(time.Second), Took: took.Round(time.Second).String(),
		Flags: flags, Go: runtime.Version(), Etcd: version.Version,
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Load: load(),
		Verdicts: judge(r, goals()), Figures: r.figures,
	}
}

func (r *report) title() string {
	return fmt.Sprintf("etcd %s, client and server on one machine with %d CPUs (load %s), %s, %s, %s in %s, flags %q",
		r.Etcd, r.CPUs, r.Load, r.Go, r.System, r.Date.Format("2006-01-02"), r.Took, r.Flags)
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

// tables renders all figures, a table for each scenario.
func (r *report) tables(heading string, render func(table.Writer) string) string {
	var b strings.Builder
	for _, s := range scenarios() {
		if t := figuresTable(r.record, s); t != nil {
			fmt.Fprintf(&b, "%s%s: %s\n\n%s\n\n", heading, s.name, s.about, render(t))
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

// write leaves everything in a directory, unless that is "".
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
	markdown := fmt.Sprintf("# Measured\n\n%s\n\n%s\n\n## Goals\n\n%s\n\n%s", r.title(), legend,
		goalsTable(r.Verdicts).RenderMarkdown(), r.tables("## ", table.Writer.RenderMarkdown))
	var written []string
	save := func(name string, text []byte) error {
		path := filepath.Join(dir, name)
		written = append(written, path)
		return os.WriteFile(path, text, 0o644)
	}
	err = errors.Join(save("bench.json", append(figures, '\n')), save("bench.md", []byte(markdown)))
	if svg, e := drawHandOffs(r.record); e != nil {
		err = errors.Join(err, e)
	} else if svg != nil {
		err = errors.Join(err, save("handoff.svg", svg))
	}
	fmt.Fprintln(progress, "written:", strings.Join(written, ", "))
	return err
}
