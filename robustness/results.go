package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/report"
	"github.com/fairlock/fairlock/robustness/trial"
)

// results has the results of all trials, and writes them into a folder.
type results struct {
	folder string
	file   *os.File
	lines  *json.Encoder
	kinds  []string // in the order in which they came
	of     map[string][]*trial.Result
	broken []error // the reasons why clusters became useless
}

func newResults(folder, service, lock string) (*results, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(report.Results(folder, service, lock))
	if err != nil {
		return nil, err
	}
	return &results{folder: folder, file: file, lines: json.NewEncoder(file), of: map[string][]*trial.Result{}}, nil
}

func (r *results) close() error { return r.file.Close() }

// add writes results into the folder, and the histories of the trials that failed.
func (r *results) add(rs []*trial.Result) error {
	for _, res := range rs {
		err := r.lines.Encode(res)
		if len(res.Violations) > 0 {
			err = errors.Join(err, res.Write(r.folder))
		}
		if err != nil {
			return err
		}
		for _, v := range res.Violations {
			fmt.Fprintf(os.Stderr, "  %s %s: %s: %s (%s)\n", res.Queue, res.Recipe, v.Property, v.Text, v.Oracle)
		}
		if !res.Hit() {
			fmt.Fprintf(os.Stderr, "  %s %s: missed: %s\n", res.Queue, res.Recipe, res.Missed)
		}
		if len(res.Violations) > 0 || !res.Hit() {
			fmt.Fprintln(os.Stderr, "  to repeat its round:", repeat(res))
		}
		res.History = nil // a long run would need too much memory
		r.keep(res.Kind, []*trial.Result{res})
	}
	return nil
}

// repeat returns the command that repeats the round of a trial.
func repeat(res *trial.Result) string {
	on := res.Service
	if res.Transport != "" {
		on += " -transport " + res.Transport
	}
	return fmt.Sprintf("go -C robustness run . -on %s -lock '%s' -kinds %s -seed %d -round %d", on, res.Lock, res.Kind, res.Seed, res.Round)
}

// keep keeps results for the table.
func (r *results) keep(kind string, rs []*trial.Result) {
	if r.of[kind] == nil {
		r.kinds = append(r.kinds, kind)
	}
	r.of[kind] = append(r.of[kind], rs...)
}

// tried returns how many trials of a kind there were. A trial that missed counts too: it
// is not repeated, because it fails the run.
func (r *results) tried(kind string) int { return len(r.of[kind]) }

func (r *results) count(f func(*trial.Result) bool) (n int) {
	for _, rs := range r.of {
		for _, res := range rs {
			if f(res) {
				n++
			}
		}
	}
	return n
}

func (r *results) missed() int {
	return r.count(func(res *trial.Result) bool { return !res.Hit() })
}

func (r *results) violated() int {
	return r.count(func(res *trial.Result) bool { return len(res.Violations) > 0 })
}

// violating counts the trials with a violation of a property.
func violating(rs []*trial.Result, property string) (n int) {
	for _, res := range rs {
		for _, v := range res.Violations {
			if v.Property == property {
				n++
				break
			}
		}
	}
	return n
}

// worst returns the worst of a figure, or "" if no trial has it.
func worst(rs []*trial.Result, f trial.Figure) string {
	var all []time.Duration
	for _, res := range rs {
		if d, ok := res.Figures[f]; ok {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return ""
	}
	d := slices.Max(all)
	if f.Least() {
		d = slices.Min(all)
	}
	return d.Round(time.Millisecond).String()
}

// print prints a table. The numbers under a property count trials with a violation of it.
func (r *results) print(w io.Writer) {
	figures := []trial.Figure{trial.FaultToNotified, trial.NotifiedBefore, trial.FaultToGone, trial.FaultToGrant, trial.Progress, trial.Return, trial.Leaderless, trial.Stalled}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	head := table.Row{"kind", "trials", "hit"}
	for _, p := range report.Properties() {
		head = append(head, p)
	}
	for _, f := range figures {
		head = append(head, string(f))
	}
	t.AppendHeader(append(head, "seeds", "clients", "grants", "operations", "faults", "lost", "failed", "starved", "refused", "unfenced"))
	var all []*trial.Result
	for _, kind := range r.kinds {
		t.AppendRow(row(kind, r.of[kind], figures))
		all = append(all, r.of[kind]...)
	}
	for _, transport := range transports(all) {
		on := slices.DeleteFunc(slices.Clone(all), func(res *trial.Result) bool { return res.Transport != transport })
		t.AppendFooter(row("all on "+transport, on, figures))
	}
	t.AppendFooter(row("all", all, figures))
	t.Render()
	for _, err := range r.broken {
		fmt.Fprintln(w, "a cluster became useless:", err)
	}
}

// transports returns the transports that results name.
func transports(rs []*trial.Result) (all []string) {
	for _, res := range rs {
		if res.Transport != "" && !slices.Contains(all, res.Transport) {
			all = append(all, res.Transport)
		}
	}
	return all
}

func row(kind string, rs []*trial.Result, figures []trial.Figure) table.Row {
	seeds := map[uint64]bool{}
	var hits, clients, grants, operations, faults, lost, failed, starved int
	var resources history.ResourceCounts
	for _, res := range rs {
		if res.Hit() {
			hits++
		}
		if res.Starved {
			starved++
		}
		resources = resources.Plus(res.Resource)
		seeds[res.Seed] = true
		clients += res.Clients
		faults += res.Faults
		grants += res.Grants
		operations += res.Operations
		lost += res.Lost
		failed += res.Failed
	}
	row := table.Row{kind, len(rs), hits}
	for _, p := range report.Properties() {
		row = append(row, violating(rs, p))
	}
	for _, f := range figures {
		row = append(row, worst(rs, f))
	}
	return append(row, len(seeds), clients, grants, operations, faults, lost, failed, starved, resources.Refused, resources.Unfenced)
}
