package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/fairlock/fairlock/bench/stand"
)

// format formats a value with its unit.
func (u unit) format(v float64) string {
	switch {
	case u == micros && math.Abs(v) >= 1000:
		return digits(v/1000) + " ms"
	case u == micros:
		return digits(v) + " µs"
	case u == octets:
		return fmt.Sprintf("%.0f B", v)
	case u == perSec:
		return digits(v) + "/s"
	}
	return digits(v)
}

func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// formatSpread leaves out a spread of 0.
func (u unit) formatSpread(s spread) string {
	if s.Min == s.Max {
		return u.format(s.Median)
	}
	return fmt.Sprintf("%s (%s – %s)", u.format(s.Median), u.format(s.Min), u.format(s.Max))
}

// A row is a figure of ours, with the same figure of the earlier commit and of the peer. Each may be
// nil. A second peer has rows of its own, which its name begins.
type row struct {
	ours, old, theirs *figure
	second            string
}

// rows returns the rows of a scenario, in the order in which their figures were measured.
func rows(on *service, r *record, scenario string) []row {
	var all []row
	for _, f := range r.figures {
		if f.Scenario != scenario {
			continue
		}
		counterpart := r.versus(f.key, on.counterpart(f.Contestant))
		c := on.contestant(f.Contestant)
		switch {
		case c.Old:
			// It is in the row of ours.
		case c.Ours:
			all = append(all, row{ours: f, old: r.versus(f.key, on.earlier(f.Contestant)), theirs: counterpart})
		case c.Against != "":
			all = append(all, row{ours: r.versus(f.key, c.Against), theirs: f, second: "against the " + c.Name})
		case !slices.ContainsFunc(all, func(r row) bool { return r.theirs == f }) && counterpart == nil:
			all = append(all, row{theirs: f})
		}
	}
	return all
}

// some returns a figure of the row.
func (r row) some() *figure { return cmp.Or(r.ours, r.theirs) }

// ratioTo divides ours by another figure, round by round. It returns nil if one is missing.
func (r row) ratioTo(other *figure) []float64 {
	if r.ours == nil || other == nil {
		return nil
	}
	return ratios(r.ours.Rounds, other.Rounds)
}

// worse reports whether ours was worse than at the earlier commit in every round, of at least two.
func (r row) worse() bool {
	rs := r.ratioTo(r.old)
	s := spreadOf(rs)
	switch {
	case len(rs) < 2:
		return false
	case r.ours.moreIsBetter():
		return s.Max < 1
	default:
		return s.Min > 1
	}
}

// figuresTable returns the table of a scenario; nil if the scenario was not measured. It has columns
// for an earlier commit, if there is one, and for a peer, if the service has one.
func figuresTable(on *service, r *record, s scenario, o *old) table.Writer {
	all := rows(on, r, s.name)
	if len(all) == 0 {
		return nil
	}
	header, ratios := table.Row{"cluster", s.size, "", "", stand.Ours}, table.Row{}
	if o != nil {
		header, ratios = append(header, o.Ref), append(ratios, stand.Ours+" : "+o.Ref)
	}
	if on.Peer != "" {
		header, ratios = append(header, on.peers()), append(ratios, stand.Ours+" : "+on.peers())
	}
	if o != nil {
		ratios = append(ratios, "")
	}
	t := newTable()
	t.AppendHeader(append(header, ratios...))
	for _, p := range all {
		f := p.some()
		use := cmp.Or(p.second, on.contestant(f.Contestant).Use)
		t.AppendRow(append(table.Row{f.Cluster, f.Size, use, f.Metric}, p.cells(o != nil, on.Peer != "")...))
	}
	return t
}

// cells returns the figures of a row, then their ratios.
func (r row) cells(old, peer bool) table.Row {
	cells, quotients := table.Row{r.ours.text()}, table.Row{}
	add := func(other *figure) {
		cells = append(cells, other.text())
		ratio := ""
		rs := r.ratioTo(other)
		if rs != nil {
			ratio = count.formatSpread(spreadOf(rs)) + " ×"
		}
		quotients = append(quotients, ratio)
	}
	if old {
		add(r.old)
	}
	if peer {
		add(r.theirs)
	}
	if old {
		worse := ""
		if r.worse() {
			worse = "worse in every round"
		}
		quotients = append(quotients, worse)
	}
	return append(cells, quotients...)
}

// text returns a figure as a table shows it.
func (f *figure) text() string {
	if f == nil {
		return ""
	}
	return f.Unit.formatSpread(spreadOf(f.Rounds))
}

// goalsTable returns the table of the goals and the results.
func goalsTable(vs []verdict) table.Writer {
	t := newTable()
	t.AppendHeader(table.Row{"goal", "cluster", "size", "want", "got", ""})
	for _, v := range vs {
		met := "met"
		if !v.Met {
			met = "NOT MET"
		}
		t.AppendRow(table.Row{v.Goal, v.Cluster, v.Size, v.Want, count.formatSpread(v.Value), met})
	}
	return t
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	return t
}
