package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/fairlock/fairlock/bench/stand"
)

// format writes a value with three digits that mean something.
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
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// formatSpread leaves the spread out where there is none.
func (u unit) formatSpread(s spread) string {
	if s.Min == s.Max {
		return u.format(s.Median)
	}
	return fmt.Sprintf("%s (%s – %s)", u.format(s.Median), u.format(s.Min), u.format(s.Max))
}

// A row is a figure of ours beside the same of the peer's; either may be nil.
type row struct{ ours, theirs *figure }

// rows pairs the figures of a scenario, in the order in which they were
// measured.
func rows(on *service, r *record, scenario string) []row {
	var all []row
	for _, f := range r.figures {
		if f.Scenario != scenario {
			continue
		}
		rival := r.versus(f.key, on.rival(f.Contestant))
		switch {
		case on.contestant(f.Contestant).Ours:
			all = append(all, row{f, rival})
		case !slices.ContainsFunc(all, func(r row) bool { return r.theirs == f }) && rival == nil:
			all = append(all, row{nil, f})
		}
	}
	return all
}

// figuresTable shows one scenario; nil if it was not measured.
func figuresTable(on *service, r *record, s scenario) table.Writer {
	all := rows(on, r, s.name)
	if len(all) == 0 {
		return nil
	}
	t := newTable()
	t.AppendHeader(table.Row{"cluster", s.size, "", "", stand.Ours, on.Peer, stand.Ours + " : " + on.Peer})
	for _, p := range all {
		f, ours, theirs, ratio := p.ours, "", "", ""
		if f != nil {
			ours = f.Unit.formatSpread(spreadOf(f.Rounds))
		} else {
			f = p.theirs
		}
		if p.theirs != nil {
			theirs = p.theirs.Unit.formatSpread(spreadOf(p.theirs.Rounds))
		}
		if p.ours != nil && p.theirs != nil {
			if rs := ratios(p.ours.Rounds, p.theirs.Rounds); rs != nil {
				ratio = count.formatSpread(spreadOf(rs)) + " ×"
			}
		}
		t.AppendRow(table.Row{f.Cluster, f.Size, on.contestant(f.Contestant).Use, f.Metric, ours, theirs, ratio})
	}
	return t
}

// goalsTable says what was aimed at and what was reached.
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
