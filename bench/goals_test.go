package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	r := newRecord()
	add := func(scenario string, kind clusterKind, size int, who, metric string, rounds ...float64) {
		for _, v := range rounds {
			r.add(key{scenario, kind, size, who, metric}, micros, v)
		}
	}
	for _, k := range []clusterKind{single, three, threeFsync} {
		add("churn", k, 2, fairlock, metricRate, 1000, 1000, 600)
		add("churn", k, 2, peer, metricRate, 20, 30, 20)
	}
	add("line", single, 10, fairlockOneSession, metricHandOffP50, 100)
	add("line", single, 10, peerOneClient, metricHandOffP50, 140)
	add("line", single, 10_000, fairlockOneSession, metricHandOffP50, 150)
	add("line", single, 2, fairlock, metricHandOffP50, 1) // nobody to compare with
	add("memory", single, 100, fairlockOneSession, metricHeap, 4097)

	assert.Equal(t, []verdict{
		{"churn: acquisitions per second", single, 2, "≥ 40 ×", spread{1000. / 30, 30, 50}, false},
		{"churn: acquisitions per second", threeFsync, 2, "≥ 25 ×", spread{1000. / 30, 30, 50}, true},
		{"hand-off in one process: time", single, 10, "≤ 0.7 ×", spread{100. / 140, 100. / 140, 100. / 140}, false},
		{"hand-off in one process: our time at 10 000 : at 10", single, 10_000, "≤ 1.5 ×", spread{1.5, 1.5, 1.5}, true},
		{"heap of a waiter, bytes", single, 100, "≤ 4096", spread{4097, 4097, 4097}, false},
	}, judge(r, goals()))
}

func TestGoalsNameWhatIsMeasured(t *testing.T) {
	for _, g := range goals() {
		assert.Contains(t, scenarioNames(), g.scenario)
		assert.True(t, contestantOf(g.ours).ours, "%s", g.text)
		if g.over != nil {
			k := g.over(key{Contestant: g.ours})
			require.NotEmpty(t, k.Contestant)
		}
	}
}
