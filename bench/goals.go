package main

import (
	"fmt"
	"slices"
)

// A goal is what we want of a figure, or of its ratio to the peer's.
type goal struct {
	text     string
	scenario string
	metric   string
	ours     string           // contestant
	clusters []clusterKind    // nil is all that were measured
	size     func(n int) bool // nil is all
	over     func(k key) key  // what to divide by; nil is by nothing
	atMost   bool             // false is at least
	limit    float64
}

// A verdict is a goal on one cluster at one size.
type verdict struct {
	Goal    string      `json:"goal"`
	Cluster clusterKind `json:"cluster"`
	Size    int         `json:"size"`
	Want    string      `json:"want"`
	Value   spread      `json:"value"`
	Met     bool        `json:"met"`
}

// byPeer divides by the same figure of those whom a contestant is compared with.
func byPeer(k key) key {
	k.Contestant = contestantOf(k.Contestant).against
	return k
}

// bySize divides by the same figure of ours at another size.
func bySize(n int) func(key) key {
	return func(k key) key {
		k.Size = n
		return k
	}
}

func exactly(n int) func(int) bool { return func(size int) bool { return size == n } }
func from(n int) func(int) bool    { return func(size int) bool { return size >= n } }
func below(n int) func(int) bool   { return func(size int) bool { return size < n } }

// goals are the promises of the design, in its order.
func goals() []goal {
	gs := []goal{{
		text: "lock + unlock, nobody else: time", scenario: "alone", metric: metricCycle,
		ours: fairlock, over: byPeer, atMost: true, limit: 1.0,
	}}
	for _, c := range []struct {
		kind   clusterKind
		limits map[int]float64
	}{
		{single, map[int]float64{2: 40, 10: 12, 100: 1.3}},
		{threeFsync, map[int]float64{2: 25, 10: 5, 100: 1.1}},
	} {
		for _, n := range []int{2, 10, 100} {
			gs = append(gs, goal{
				text: "churn: acquisitions per second", scenario: "churn", metric: metricRate, ours: fairlock,
				clusters: []clusterKind{c.kind}, size: exactly(n), over: byPeer, limit: c.limits[n],
			})
		}
	}
	for _, ours := range []string{fairlock, fairlockOneSession} {
		in := ""
		if ours == fairlockOneSession {
			in = " in one process"
		}
		gs = append(gs,
			goal{
				text: "hand-off" + in + ": time", scenario: "line", metric: metricHandOffP50,
				ours: ours, size: below(10), over: byPeer, atMost: true, limit: 1.0,
			},
			goal{
				text: "hand-off" + in + ": time", scenario: "line", metric: metricHandOffP50,
				ours: ours, size: from(10), over: byPeer, atMost: true, limit: 0.7,
			})
	}
	gs = append(gs, goal{
		text: "hand-off in one process: our time at 10 000 : at 10", scenario: "line", metric: metricHandOffP50,
		ours: fairlockOneSession, size: exactly(10_000), over: bySize(10), atMost: true, limit: 1.5,
	})
	for _, ours := range []string{fairlock, fairlockOneSession} {
		gs = append(gs,
			goal{
				text: "hand-off at 4 ms round trip: time, " + ours, scenario: "far", metric: metricHandOffP50,
				ours: ours, over: byPeer, atMost: true, limit: 0.4,
			},
			goal{
				text: "requests from release to grant, " + ours, scenario: "requests", metric: metricMost,
				ours: ours, atMost: true, limit: 2,
			})
	}
	return append(gs,
		goal{
			text: "heap of a waiter, bytes", scenario: "memory", metric: metricHeap,
			ours: fairlockOneSession, atMost: true, limit: 4096,
		},
		goal{
			text: "goroutines of a waiter beside the caller's", scenario: "memory", metric: metricGoroutines,
			ours: fairlockOneSession, atMost: true, limit: 1,
		})
}

// judge holds what was measured against the goals. A goal is met if the median
// is; what was not measured is not judged.
func judge(r *record, gs []goal) []verdict {
	var vs []verdict
	for _, g := range gs {
		for _, f := range r.figures {
			if f.Scenario != g.scenario || f.Metric != g.metric || f.Contestant != g.ours ||
				g.clusters != nil && !slices.Contains(g.clusters, f.Cluster) ||
				g.size != nil && !g.size(f.Size) {
				continue
			}
			values := f.Rounds
			if g.over != nil {
				base := r.get(g.over(f.key))
				if base == nil {
					continue
				}
				values = ratios(f.Rounds, base.Rounds)
			}
			vs = append(vs, g.verdict(f.key, spreadOf(values)))
		}
	}
	return vs
}

func (g goal) verdict(k key, s spread) verdict {
	v := verdict{Goal: g.text, Cluster: k.Cluster, Size: k.Size, Value: s}
	sign := "≥"
	v.Met = s.Median >= g.limit
	if g.atMost {
		sign = "≤"
		v.Met = s.Median <= g.limit
	}
	v.Want = fmt.Sprintf("%s %g", sign, g.limit)
	if g.over != nil {
		v.Want += " ×"
	}
	return v
}
