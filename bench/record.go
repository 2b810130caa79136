package main

import (
	"math"
	"slices"

	"github.com/montanaflynn/stats"

	"github.com/fairlock/fairlock/bench/stand"
)

// A key identifies a figure.
type key struct {
	Scenario   string     `json:"scenario"`
	Cluster    stand.Kind `json:"cluster"`
	Size       int        `json:"size"` // contenders, waiters or past acquisitions, by the scenario
	Contestant string     `json:"contestant"`
	Metric     string     `json:"metric"`
}

// A unit is the unit of a figure.
type unit string

const (
	micros unit = "µs"
	perSec unit = "1/s"
	count  unit = ""
	octets unit = "B"
)

// A figure is one number, measured once in each round.
type figure struct {
	key
	Unit   unit      `json:"unit"`
	Rounds []float64 `json:"rounds"`
}

// moreIsBetter reports whether a figure is a rate or a share, which should be high.
func (f *figure) moreIsBetter() bool { return f.Unit == perSec || f.Metric == metricShare }

// A spread is the median, the smallest and the greatest of some values.
type spread struct{ Median, Min, Max float64 }

// spreadOf returns the spread of values, the zero spread if there are none.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{Median: median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// median returns the median, and NaN if there are no values.
func median(values []float64) float64 {
	m, err := stats.Median(values)
	if err != nil {
		return math.NaN()
	}
	return m
}

// ratios divides round by round. It leaves out rounds that only one side has.
func ratios(a, b []float64) []float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

// A record stores figures in the order in which they were first measured.
type record struct {
	figures []*figure
	byKey   map[key]*figure
}

func newRecord() *record { return &record{byKey: map[key]*figure{}} }

// add adds the value of one round.
func (r *record) add(k key, u unit, value float64) {
	f := r.byKey[k]
	if f == nil {
		f = &figure{key: k, Unit: u}
		r.byKey[k] = f
		r.figures = append(r.figures, f)
	}
	f.Rounds = append(f.Rounds, value)
}

// get returns a figure, nil if it was not measured.
func (r *record) get(k key) *figure { return r.byKey[k] }

// versus returns the same figure of another contestant.
func (r *record) versus(k key, contestant string) *figure {
	k.Contestant = contestant
	return r.get(k)
}
