package designs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/report"
)

// Draw draws the results in a folder into a page, between its marks, and the pictures into files next to it.
func Draw(folder, page string, log io.Writer) error {
	d, err := Read(folder)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	drawn, err := report.Into(old, d.Markdown())
	if err != nil {
		return err
	}
	lost, err := d.PlotLost()
	if err != nil {
		return err
	}
	load, err := d.PlotLoad()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{page: drawn, nextTo(page, LostPicture): lost, nextTo(page, LoadPicture): load} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(log, "designs: written:", name)
	}
	return nil
}

// The pictures next to the page.
const (
	LostPicture = "designs-lost.svg"
	LoadPicture = "designs-load.svg"
)

func nextTo(page, name string) string { return filepath.Join(filepath.Dir(page), name) }

// tallied adds up the trials of a design under a fault.
func (d *Data) tallied(s *Store, design *Design, f *Fault) *tally {
	y := &tally{}
	for _, r := range d.trials {
		if r.Stand == s.Name && r.Design == design.Name && r.Fault == f.Name {
			y.add(r)
		}
	}
	return y
}

// Markdown returns all tables.
func (d *Data) Markdown() string {
	parts := []string{
		d.about(),
		"![What each design has lost under each fault](" + LostPicture + ")",
		"### What was lost\n\n" +
			"The number of trials in which something was lost, of those in the head of the row, and what: **2** two held at once, **3** and a third one too, because the late release of the first one freed the lock of the second, **U** an update was lost, **N** a waiter was never granted, **O** an orphan, still taken when all programs have ended; with its own number where it is not the same. 0: nothing. A dash: this fault is not tried there.",
		d.lost(),
		d.tokens(),
		"### Order and load\n\n" +
			fmt.Sprintf("%d programs wait behind a holder, and then hold for %s each; %d times. *Overtook*: grants to a waiter that had asked after another one which still waited; and the most waiters that passed one. *Requests/s*: of each waiter while nothing happens, renewals included; what a client sends in one piece counts as one, so on etcd frames of HTTP/2 count too. *Woken*: waiters that send something in the moment after a release. ", waiters, workTime, rounds) +
			"*Requests per grant*: of all programs together, from the first release to the last grant. *Hand-over*: from a release to the next grant, the median. *After a dead holder*: from the kill to the next grant, the median and the longest; the time of the lock is 2 s.",
		d.load(),
		"![Requests of a waiter in a second](" + LoadPicture + ")",
		"### A version column\n\n" +
			fmt.Sprintf("On PostgreSQL, programs add to one row: each reads it, works for %s, and writes if what it compares is as it was; %d changes of each program. *Refused*: work that was done in vain, and again. *ABA*: others have changed the row twice, to another value and back, between the read and the write; so many of %d such writes were accepted.", thinking, changes, abas),
		d.versioned(),
		d.commands(),
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n")
}

func markdown(head table.Row, rows []table.Row) string {
	t := table.NewWriter()
	t.AppendHeader(head)
	t.AppendRows(rows)
	return t.RenderMarkdown()
}

func code(s string) string { return "`" + s + "`" }

// about returns when and how the results were made.
func (d *Data) about() string {
	var rows []table.Row
	for _, s := range Stores() {
		for _, a := range d.abouts {
			if a.Store == s.Name {
				rows = append(rows, table.Row{s.Title, code(a.Commit), a.Began.UTC().Format("2006-01-02 15:04"), a.Took.String(), a.Each, code(fmt.Sprint(a.Seed)), a.CPUs, a.Load, a.Go})
			}
		}
	}
	var commands []string
	for _, a := range d.abouts {
		if !slices.Contains(commands, a.Command) {
			commands = append(commands, a.Command)
		}
	}
	return "One run, servers and programs on one machine, all stores at the same time. `make designs` repeats all of it; the commands of this run were:\n\n```sh\n" + strings.Join(commands, "\n") + "\n```\n\n" +
		markdown(table.Row{"store", "commit", "began (UTC)", "took", "trials each", "seed", "CPUs", "load at the end", "Go"}, rows)
}

// letters returns how many trials of a tally had a violation, and what was lost, in short.
func (y *tally) letters() string {
	switch {
	case y.hit == 0:
		return "–"
	case y.bad == 0:
		return "0"
	}
	all := []string{fmt.Sprint(y.bad)}
	for _, w := range []struct {
		n      int
		letter string
	}{{y.two, "2"}, {y.third, "3"}, {y.lost, "U"}, {y.never, "N"}, {y.orphan, "O"}} {
		switch {
		case w.n == y.bad:
			all = append(all, "**"+w.letter+"**")
		case w.n > 0:
			all = append(all, fmt.Sprintf("**%s**×%d", w.letter, w.n))
		}
	}
	return strings.Join(all, " ")
}

// lost returns the table fault × design.
func (d *Data) lost() string {
	head := table.Row{"store", "design", "trials"}
	for _, f := range Faults() {
		head = append(head, f.Text)
	}
	var rows []table.Row
	for _, s := range Stores() {
		for _, design := range s.Designs() {
			row, least, most, missed := table.Row{s.Title, code(design.Name), ""}, 0, 0, 0
			for _, f := range Faults() {
				y := d.tallied(s, design, f)
				if y.hit > 0 && (least == 0 || y.hit < least) {
					least = y.hit
				}
				most, missed = max(most, y.hit), missed+y.missed
				row = append(row, y.letters())
			}
			row[2] = fmt.Sprint(most)
			if least < most {
				row[2] = fmt.Sprintf("%d–%d", least, most)
			}
			rows = append(rows, row)
		}
	}
	return markdown(head, rows) + d.missed()
}

// missed reports how many trials do not count.
func (d *Data) missed() string {
	n, busy, why := 0, 0, ""
	for _, r := range d.trials {
		switch {
		case strings.HasPrefix(r.Missed, stalled):
			busy++
		case r.Missed != "":
			n++
			why = ", of which the last one: " + strings.Join(strings.Fields(r.Missed), " ")
		}
	}
	if n+busy == 0 {
		return ""
	}
	return fmt.Sprintf("\n\nOf %d trials, %d do not count because the machine ran nothing for more than %s, and %d for other reasons%s. Trials that do not count are repeated, up to three times as many in all.", len(d.trials), busy, longestStall, n, why)
}

// tokens returns how many trials would have lost an update without a look at the token.
func (d *Data) tokens() string {
	var rows []table.Row
	for _, s := range Stores() {
		for _, design := range s.Designs() {
			all := &tally{}
			for _, f := range Faults() {
				y := d.tallied(s, design, f)
				all.hit += y.hit
				all.lost += y.lost
				all.unfenced += y.unfenced
				all.tokens = all.tokens || y.tokens
			}
			if all.tokens {
				rows = append(rows, table.Row{s.Title, code(design.Name), all.hit, all.unfenced, all.lost})
			}
		}
	}
	return "Of the designs that have a token, the trials in which an update was lost, if the resource does not look at tokens, and if it refuses old ones:\n\n" +
		markdown(table.Row{"store", "design", "trials", "lost without tokens", "lost with tokens"}, rows)
}

func span(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// measured returns the measure of a design; nil if there is none.
func (d *Data) measured(s *Store, design *Design) *Measured {
	for _, m := range d.measures {
		if m.Stand == s.Name && m.Design == design.Name {
			return m
		}
	}
	return nil
}

// load returns the table of order and load.
func (d *Data) load() string {
	var rows []table.Row
	for _, s := range Stores() {
		for _, design := range s.Designs() {
			row := table.Row{s.Title, code(design.Name), "–", "–", "–", "–", "–"}
			m := d.measured(s, design)
			if m != nil {
				row = table.Row{
					s.Title, code(design.Name), fmt.Sprintf("%d of %d, by at most %d", m.Overtaken, m.Grants, m.Worst),
					fmt.Sprintf("%.1f", m.Idle), fmt.Sprintf("%.1f of %d", m.Woken, m.Waiters), fmt.Sprintf("%.1f", m.PerGrant), span(m.HandOver),
				}
				if m.Overtaken == 0 {
					row[2] = "none"
				}
			}
			dead := d.tallied(s, design, FaultOf("holder-killed"))
			switch {
			case len(dead.grants) > 0:
				slices.Sort(dead.grants)
				row = append(row, span(dead.grants[len(dead.grants)/2])+", "+span(dead.grants[len(dead.grants)-1]))
			case dead.hit > 0:
				row = append(row, "never")
			default:
				row = append(row, "–")
			}
			rows = append(rows, row)
		}
	}
	return markdown(table.Row{"store", "design", "overtook", "requests/s", "woken", "requests per grant", "hand-over", "after a dead holder"}, rows)
}

func (d *Data) versioned() string {
	var rows []table.Row
	for _, v := range d.versions {
		rows = append(rows, table.Row{v.Compare, v.Programs, v.Changes, v.Lost, fmt.Sprintf("%d (%.1f per change)", v.Refused, float64(v.Refused)/float64(v.Changes)), fmt.Sprintf("%d of %d", v.Stale, v.Tries)})
	}
	return markdown(table.Row{"compares", "programs", "changes", "lost", "refused", "ABA"}, rows)
}

// commands returns the command that repeats each cell with a violation: the round of the first one.
func (d *Data) commands() string {
	var b strings.Builder
	for _, s := range Stores() {
		for _, design := range s.Designs() {
			for _, f := range Faults() {
				r := d.tallied(s, design, f).firstBad
				if r != nil {
					fmt.Fprintf(&b, "%s\n", Repeat(r, d.each(s)))
				}
			}
		}
	}
	return "<details><summary>The command that repeats each violation</summary>\n\n```sh\n" + b.String() + "```\n\n</details>"
}

// each returns how many trials of each kind a run on a store had.
func (d *Data) each(s *Store) int {
	for _, a := range d.abouts {
		if a.Store == s.Name {
			return a.Each
		}
	}
	return 1
}

// Repeat returns the command that repeats the round of a trial.
func Repeat(r *Result, each int) string {
	return fmt.Sprintf("go -C robustness run ./designs/run -on %s -lock '%s' -fault %s -each %d -seed %d -round %d", r.Stand, r.Design, r.Fault, each, r.Seed, r.Round)
}
