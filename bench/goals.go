package main

import (
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/bench/stand"
)

// A goal is a bound for a figure, or for its ratio to another.
type goal struct {
	text     string
	scenario string
	metric   string
	ours     string                       // the contestant
	clusters []stand.Kind                 // nil is all measured ones
	size     func(n int) bool             // nil is all sizes
	over     func(on *service, k key) key // the figure to divide by; nil does not divide
	fastest  []string                     // or that of the contestant with the least median
	atMost   bool                         // the limit is an upper bound
	limit    float64
}

// A verdict is the result for a goal on one cluster at one size.
type verdict struct {
	Goal    string     `json:"goal"`
	Cluster stand.Kind `json:"cluster"`
	Size    int        `json:"size"`
	Want    string     `json:"want"`
	Value   spread     `json:"value"`
	Met     bool       `json:"met"`
}

// byPeer divides by the same figure of the counterpart.
func byPeer(on *service, k key) key {
	k.Contestant = on.counterpart(k.Contestant)
	return k
}

// byBare divides by the same figure of the bare requests.
func byBare(_ *service, k key) key {
	k.Contestant = stand.Bare
	return k
}

// by divides by the same figure of another contestant.
func by(contestant string) func(*service, key) key {
	return func(_ *service, k key) key {
		k.Contestant = contestant
		return k
	}
}

// byMetric divides by another figure of the same contestant.
func byMetric(metric string) func(*service, key) key {
	return func(_ *service, k key) key {
		k.Metric = metric
		return k
	}
}

// bySize divides by the same figure of ours at another size.
func bySize(n int) func(*service, key) key {
	return func(_ *service, k key) key {
		k.Size = n
		return k
	}
}

func exactly(n int) func(int) bool { return func(size int) bool { return size == n } }
func from(n int) func(int) bool    { return func(size int) bool { return size >= n } }
func below(n int) func(int) bool   { return func(size int) bool { return size < n } }

// judge compares the figures with the service's goals. A goal is met if the median is within the
// limit. Goals without a figure are left out.
func judge(on *service, r *record) []verdict {
	var vs []verdict
	for _, g := range on.goals {
		for _, f := range r.figures {
			if f.Scenario != g.scenario || f.Metric != g.metric || f.Contestant != g.ours ||
				g.clusters != nil && !slices.Contains(g.clusters, f.Cluster) ||
				g.size != nil && !g.size(f.Size) {
				continue
			}
			values := f.Rounds
			if g.over != nil || g.fastest != nil {
				base := g.base(on, r, f.key)
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

// base returns the figure to divide by, nil if it was not measured.
func (g goal) base(on *service, r *record, k key) *figure {
	if g.over != nil {
		return r.get(g.over(on, k))
	}
	var best *figure
	for _, name := range g.fastest {
		f := r.versus(k, name)
		if f != nil && (best == nil || spreadOf(f.Rounds).Median < spreadOf(best.Rounds).Median) {
			best = f
		}
	}
	return best
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
	if g.over != nil || g.fastest != nil {
		v.Want += " ×"
	}
	return v
}
