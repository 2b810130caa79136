package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A quick run of everything, against a real etcd. It looks at counts, which do
// not depend on the machine; times only have to be there.
func TestQuickRunMeasuresEverything(t *testing.T) {
	dir := t.TempDir()
	var out, progress strings.Builder

	require.NoError(t, run(t.Context(), []string{"-quick", "-out", dir}, &out, &progress), "%s", &progress)

	var r report
	text, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	record := newRecord()
	for _, f := range r.Figures {
		assert.Len(t, f.Rounds, 1, "%v", f.key)
		if f.Unit == micros || f.Unit == perSec {
			assert.Positive(t, f.Rounds[0], "%v", f.key)
		}
		record.byKey[f.key] = f
	}
	plan := quickPlan()
	require.Len(t, r.Verdicts, 13, "goals that the sizes of a quick run can show")

	value := func(scenario string, size int, contestant, metric string) float64 {
		k := key{scenario, single, size, contestant, metric}
		if f := record.get(k); assert.NotNil(t, f, "%v", k) {
			return f.Rounds[0]
		}
		return 0
	}
	for _, c := range everybody() {
		waiters := plan.memory.waiters
		if c.alone {
			assert.InDelta(t, 2, value("alone", 1, c.name, metricPerLock), 0.5, "a lock and an unlock")
			value("history", plan.history.past, c.name, metricAfter)
			waiters = plan.memory.sessions
		}
		value("memory", waiters, c.name, metricGoroutines)
		value("far", plan.far.size, c.name, metricHandOffP50)
		for _, n := range plan.line.sizes {
			value("line", n, c.name, metricHandOff)
		}
		share := value("churn", plan.churn.sizes[0], c.name, metricShare)
		assert.Greater(t, share, 0.0)
		assert.LessOrEqual(t, share, 1.0)
		perLock := value("requests", plan.requests.size, c.name, metricPerLock)
		assert.GreaterOrEqual(t, perLock, 2.0, "%s: a join and a leave", c.name)
		assert.LessOrEqual(t, perLock, 30.0, "%s", c.name)
		assert.GreaterOrEqual(t, value("requests", plan.requests.size, c.name, metricMost), 1.0, "%s: the delete", c.name)
	}
	for _, n := range plan.line.together {
		value("line", n, fairlockOneSession, metricJoins)
	}
	value("history", plan.history.past, unique, metricAfter)

	for _, s := range scenarios() {
		assert.Contains(t, out.String(), s.name+": "+s.about)
	}
	markdown, err := os.ReadFile(filepath.Join(dir, "bench.md"))
	require.NoError(t, err)
	assert.Contains(t, string(markdown), "| lock + unlock, nobody else: time | single | 1 |")
	svg, err := os.Open(filepath.Join(dir, "handoff.svg"))
	require.NoError(t, err)
	defer svg.Close()
	assertXML(t, svg)
}

func assertXML(t *testing.T, r io.Reader) {
	t.Helper()
	d := xml.NewDecoder(r)
	for {
		if _, err := d.Token(); err != nil {
			require.True(t, errors.Is(err, io.EOF), "%v", err)
			return
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-cluster", "five"}, `"five" is none of single, single-fsync, three, three-fsync`},
		{[]string{"-run", "("}, "-run"},
		{[]string{"-quick", "-full"}, "exclude each other"},
		{[]string{"churn"}, "no arguments beside flags"},
	} {
		_, err := parse(c.args, io.Discard)
		require.ErrorContains(t, err, c.want)
	}

	p, err := parse([]string{"-run", "line|far", "-cluster", "single, three-fsync", "-rounds", "7"}, io.Discard)
	require.NoError(t, err)
	assert.True(t, p.only.MatchString("far"))
	assert.False(t, p.only.MatchString("churn"))
	assert.Equal(t, []clusterKind{single, threeFsync}, p.plan.on(allClusters()))
	assert.Equal(t, 7, p.plan.rounds)
	assert.Equal(t, "results", p.dir)
}
