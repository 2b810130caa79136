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

	"github.com/fairlock/fairlock/bench/stand"
)

// A report is the result of a run on one service.
type report struct {
	service *service
	plan    plan
	record  *record

	Old      *old      `json:"old,omitempty"`
	Date     time.Time `json:"date"`
	Took     string    `json:"took"`
	Flags    string    `json:"flags"`
	Go       string    `json:"go"`
	Service  string    `json:"service"` // with its version
	System   string    `json:"system"`
	CPUs     int       `json:"cpus"`
	Load     string    `json:"load"` // of the machine, during the run
	Verdicts []verdict `json:"goals"`
	Figures  []*figure `json:"figures"`
	Ratios   []ratio   `json:"ratios,omitempty"` // with an earlier commit
}

func newReport(b *bench, flags string) *report {
	r := &report{
		Old: b.old, service: &b.service, plan: b.plan, record: b.record,
		Date: time.Now().UTC().Truncate(time.Second), Took: time.Since(b.start).Round(time.Second).String(),
		Flags: flags, Go: runtime.Version(), Service: strings.TrimSpace(b.Name + " " + b.version),
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Load: load(),
		Verdicts: judge(&b.service, b.record), Figures: b.record.figures,
	}
	if b.old != nil {
		r.Ratios = quotients(&b.service, b.record)
	}
	return r
}

func (r *report) title() string {
	title := fmt.Sprintf("%s, clients and servers on one machine with %d CPUs (load %s), %s, %s, %s in %s, flags %q",
		r.Service, r.CPUs, r.Load, r.Go, r.System, r.Date.Format("2006-01-02"), r.Took, r.Flags)
	if r.Old != nil {
		title += fmt.Sprintf(". %s is commit %s, compared with %s, which is %s; each contestant in a process of its own",
			stand.Ours, r.Old.New, r.Old.Ref, r.Old.Commit)
	}
	return title
}

// load returns the load of the machine in the last minutes. Figures mean little if it is much above
// the load that this program makes. Only Linux reports it.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

const legend = "Medians over rounds (least – greatest). A ratio is ours : theirs, taken round by round."

// A ratio is a figure of ours divided by another one, round by round.
type ratio struct {
	key
	To     string    `json:"to"` // the other contestant
	Rounds []float64 `json:"rounds"`
	Worse  bool      `json:"worse,omitempty"` // than at the earlier commit, in every round
}

// quotients returns all ratios in the tables.
func quotients(on *service, r *record) []ratio {
	var all []ratio
	for _, s := range scenarios() {
		for _, p := range rows(on, r, s.name) {
			for _, other := range []*figure{p.old, p.theirs} {
				rs := p.ratioTo(other)
				if rs != nil {
					all = append(all, ratio{p.ours.key, other.Contestant, rs, other == p.old && p.worse()})
				}
			}
		}
	}
	return all
}

// notes returns how to read the table of a scenario, or "".
func (r *report) notes(scenario string) string {
	p := r.plan.line
	if r.service.Peer == "" {
		return ""
	}
	switch scenario {
	case "sharing":
		if r.Old == nil {
			return sharingNote
		}
		return ""
	case "line":
	default:
		return ""
	}
	return fmt.Sprintf("In a queue longer than %d only the first %[1]d hand-offs are measured, on both sides. "+
		"%s has at most %d waiters in it; the entries behind them have no waiters, but the servers do not see that.\n\n",
		p.bound, r.service.Peer, p.peers)
}

// tables renders all figures, with a table for each scenario.
func (r *report) tables(heading string, render func(table.Writer) string) string {
	var b strings.Builder
	for _, s := range scenarios() {
		t := figuresTable(r.service, r.record, s, r.Old)
		if s.name == "sharing" && r.Old == nil {
			t = sharingTable(r)
		}
		if t != nil {
			fmt.Fprintf(&b, "%s%s: %s\n\n%s%s\n\n", heading, s.name, s.about, r.notes(s.name), render(t))
		}
	}
	return b.String()
}

// print writes the tables for a terminal.
func (r *report) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n%s\n%s\n\n%s%s\n", r.title(), legend,
		r.tables("", table.Writer.Render), goalsTable(r.Verdicts).Render())
	return err
}

// write writes everything into files in a directory, with the service's name in theirs. It does
// nothing if dir is "".
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
	for _, p := range []struct {
		name string
		draw func(*service, *record) ([]byte, error)
	}{{"-handoff.svg", drawHandOffs}, {"-pass.svg", drawPasses}} {
		svg, e := p.draw(r.service, r.record)
		if e != nil {
			err = errors.Join(err, e)
		} else if svg != nil {
			err = errors.Join(err, save(p.name, svg))
		}
	}
	fmt.Fprintln(progress, "written:", strings.Join(written, ", "))
	return err
}
