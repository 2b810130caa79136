package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/stand"
)

func TestJudge(t *testing.T) {
	etcd := serviceOf(t, "etcd")
	r := newRecord()
	add := func(scenario string, kind stand.Kind, size int, contestant, metric string, rounds ...float64) {
		for _, v := range rounds {
			r.add(key{scenario, kind, size, contestant, metric}, micros, v)
		}
	}
	add("churn", stand.Single, 2, stand.Ours, metricRate, 1000, 1000, 600)
	add("churn", stand.Single, 2, "Mutex", metricRate, 20, 30, 20)
	add("churn", stand.Single, 2, stand.Bare, metricRate, 500, 500, 500)
	add("churn", stand.Three, 2, stand.Ours, metricRate, 50, 100)
	add("churn", stand.Three, 2, "Mutex", metricRate, 100, 100)
	add("line", stand.Single, 10, stand.OursOneSession, metricHandOffP50, 100)
	add("line", stand.Single, 10, "Mutex, one client", metricHandOffP50, 140)
	add("line", stand.Single, 10_000, stand.OursOneSession, metricHandOffP50, 150)
	add("line", stand.Single, 2, stand.Ours, metricHandOffP50, 1) // has no figure to divide by
	far := stand.Single.Far(4 * time.Millisecond)
	for _, kind := range []stand.Kind{stand.Single, far} {
		add("pass", kind, 100, stand.OursOneSession, metricHandOffP50, 30, 61, 70)
		add("pass", kind, 100, "Mutex, one client", metricHandOffP50, 3000, 3000, 700)
	}
	add("pass", far, 100, stand.OursOneSession, metricRate, 190)
	add("pass", far, 100, stand.OldName(stand.OursOneSession, beforePassing), metricRate, 100)
	add("memory", stand.Single, 100, stand.OursOneSession, metricHeap, 4097)

	assert.Equal(t, []verdict{
		{"churn: acquisitions per second", stand.Single, 2, "≥ 1 ×", spread{1000. / 30, 30, 50}, true},
		{"churn: acquisitions per second", stand.Three, 2, "≥ 1 ×", spread{0.75, 0.5, 1}, false},
		{"churn: acquisitions per second, against bare requests", stand.Single, 2, "≥ 0.9 ×", spread{2, 1.2, 2}, true},
		{"hand-off in one process: time", stand.Single, 10, "≤ 0.7 ×", spread{100. / 140, 100. / 140, 100. / 140}, false},
		{"hand-off in one process: our time at 10 000 : at 10", stand.Single, 10_000, "≤ 1.5 ×", spread{1.5, 1.5, 1.5}, true},
		{"hand-off in one process: time, µs", stand.Single, 100, "≤ 60", spread{61, 30, 70}, false},
		{"hand-off in one process: time at a round trip", far, 100, "≤ 0.05 ×", spread{61. / 3000, 0.01, 0.1}, true},
		{"loop in one process: acquisitions per second, against 002c357d", far, 100, "≥ 2 ×", spread{1.9, 1.9, 1.9}, false},
		{"heap of a waiter, bytes", stand.Single, 100, "≤ 4096", spread{4097, 4097, 4097}, false},
	}, judge(&etcd, r))
}

// The fastest peer is the one with the least median, not the one with the least round.
func TestJudgeComparesWithTheFastest(t *testing.T) {
	on := service{goals: []goal{{
		text: "g", scenario: "alone", metric: metricCycle, ours: stand.Ours, fastest: []string{"a", "b", "c"}, atMost: true, limit: 2,
	}}}
	r := newRecord()
	for contestant, rounds := range map[string][]float64{stand.Ours: {30, 30, 30}, "a": {1, 40, 50}, "b": {20, 20, 15}} {
		for _, v := range rounds {
			r.add(key{"alone", stand.Single, 1, contestant, metricCycle}, micros, v)
		}
	}

	assert.Equal(t, []verdict{{"g", stand.Single, 1, "≤ 2 ×", spread{1.5, 1.5, 2}, true}}, judge(&on, r))
}

func TestGoalsNameWhatIsMeasured(t *testing.T) {
	for _, on := range services() {
		for _, g := range on.goals {
			assert.Contains(t, on.scenarios, g.scenario)
			assert.True(t, on.contestant(g.ours).Ours, "%s: %s", on.flag, g.text)
			if g.over != nil {
				k := g.over(&on, key{Contestant: g.ours})
				require.NotEmpty(t, k.Contestant)
			}
			for _, k := range g.clusters {
				measured := on.plan(usual)
				kinds := map[string][]stand.Kind{
					"alone": measured.alone.clusters, "churn": measured.churn.clusters, "far": measured.far.clusters,
					"pass": measured.pass.clusters,
				}
				assert.Contains(t, kinds[g.scenario], k, "%s: %s", on.flag, g.text)
			}
		}
	}
}

func TestServicesNameScenarios(t *testing.T) {
	for _, on := range services() {
		assert.Subset(t, scenarioNames(), on.scenarios)
		for _, c := range on.Contestants {
			if c.Bare || on.Peer == "" || c.Against != "" {
				assert.Empty(t, on.counterpart(c.Name))
				continue
			}
			counterpart := on.contestant(on.counterpart(c.Name))
			assert.NotEqual(t, c.Ours, counterpart.Ours, "%s", c.Name)
			assert.Equal(t, c.Alone, counterpart.Alone, "%s", c.Name)
			assert.Empty(t, c.Against, "only a second peer has it: %s", c.Name)
		}
		assert.Empty(t, on.counterpart(unique))
	}
}

func TestEarlierCommitIsNoCounterpart(t *testing.T) {
	on := (&old{Ref: "v0.1.0"}).with(serviceOf(t, "etcd"))

	assert.Len(t, on.Contestants, 7)
	assert.Equal(t, "fairlock v0.1.0", on.earlier(stand.Ours))
	assert.Equal(t, "fairlock v0.1.0, one session", on.earlier(stand.OursOneSession))
	assert.Equal(t, "Mutex", on.counterpart("fairlock v0.1.0"))
	assert.Equal(t, stand.Ours, on.counterpart("Mutex"))
	assert.Equal(t, stand.OursOneSession, on.counterpart("Mutex, one client"))
	plain := serviceOf(t, "etcd")
	assert.Empty(t, plain.earlier(stand.Ours))
}

func serviceOf(t *testing.T, flag string) service {
	t.Helper()
	all, err := parseServices(flag)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}
