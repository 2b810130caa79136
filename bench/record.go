package main

import (
	"math"
	"slices"

	"github.com/montanaflynn/stats"

	"github.com/fairlock/fairlock/bench/stand"
)

// A key says what a figure is of.
type key struct {
	Scenario   string     `json:"scenario"`
	Cluster    stand.Kind `json:"cluster"`
	Size       int        `json:"size"` // contenders, waiters or past acquisitions, as the scenario says
	Contestant string     `json:"contestant"`
	Metric     string     `json:"metric"`
}

// A unit says how a figure is read.
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

// moreIsBetter tells rates and shares from what is to be little.
func (f *figure) moreIsBetter() bool { return f.Unit == perSec || f.Metric == metricShare }

// A spread is a median with the least and the greatest of its values.
type spread struct{ Median, Min, Max float64 }

// spreadOf returns the zero spread if there are no values.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{Median: median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// median is between the two in the middle if need be, and NaN of nothing.
func median(values []float64) float64 {
	m, err := stats.Median(values)
	if err != nil {
		return math.NaN()
	}
	return m
}

// ratios divides round by round. Rounds that only one side has are left out.
func ratios(a, b []float64) []float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

// A record keeps figures in the order in which they were first measured.
type record struct {
	figures []*figure
	byKey   map[key]*figure
}

func newRecord() *record { return &record{byKey: map[key]*figure{}} }

// add takes in one round's value.
func (r *record) add(k key, u unit, value float64) {
	f := r.byKey[k]
	if f == nil {
		f = &figure{key: k, Unit: u}
		r.byKey[k] = f
		r.figures = append(r.figures, f)
	}
	f.Rounds = append(f.Rounds, value)
}

// get returns nil for what was not measured.
func (r *record) get(k key) *figure { return r.byKey[k] }

// versus returns the figure of the same thing for another contestant.
func (r *record) versus(k key, contestant string) *figure {
	k.Contestant = contestant
	return r.get(k)
}
