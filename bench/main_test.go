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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/pgstand"
	"github.com/fairlock/fairlock/bench/stand"
)

// quickRun measures everything on real servers. It returns the figures, and the number of goals with
// a verdict.
func quickRun(t *testing.T, flag, goal string) (value func(scenario string, size int, contestant, metric string) float64, goals int) {
	dir := t.TempDir()
	var out, progress strings.Builder

	require.NoError(t, run(t.Context(), []string{"-on", flag, "-quick", "-out", dir}, &out, &progress), "%s", &progress)

	var r report
	text, err := os.ReadFile(filepath.Join(dir, flag+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	assert.Regexp(t, `^(etcd|ZooKeeper) 3\.\d+\.\d+$|^PostgreSQL \d+\.\d+|^Redis \d+\.\d+`, r.Service)
	record := newRecord()
	for _, f := range r.Figures {
		assert.Len(t, f.Rounds, 1, "%v", f.key)
		if f.Unit == micros || f.Unit == perSec {
			assert.Positive(t, f.Rounds[0], "%v", f.key)
		}
		record.byKey[f.key] = f
	}
	for _, s := range scenarios() {
		for _, wanted := range serviceOf(t, flag).scenarios {
			if s.name == wanted {
				assert.Contains(t, out.String(), s.name+": "+s.about)
			}
		}
	}
	markdown, err := os.ReadFile(filepath.Join(dir, flag+".md"))
	require.NoError(t, err)
	assert.Contains(t, string(markdown), "| "+goal+" | single | 5 |")
	for _, name := range []string{"-handoff.svg", "-pass.svg"} {
		svg, err := os.Open(filepath.Join(dir, flag+name))
		require.NoError(t, err)
		assertXML(t, svg)
		require.NoError(t, svg.Close())
	}

	return func(scenario string, size int, contestant, metric string) float64 {
		k := key{scenario, stand.Single, size, contestant, metric}
		if scenario == "far" {
			k.Cluster = k.Cluster.Far(2 * time.Millisecond)
		}
		if f := record.get(k); assert.NotNil(t, f, "%v", k) {
			return f.Rounds[0]
		}
		return 0
	}, len(r.Verdicts)
}

// It checks counts, which do not depend on the machine. Times only have to be there.
func TestQuickRunMeasuresEverythingOnEtcd(t *testing.T) {
	value, goals := quickRun(t, "etcd", "hand-off in one process: time")
	plan := quickPlan()

	assert.Equal(t, 22, goals, "those that the sizes of a quick run can show")
	for _, c := range serviceOf(t, "etcd").Contestants {
		checkCounts(t, c, value)
		if c.Alone {
			assert.InDelta(t, 2, value("alone", 1, c.Name, metricPerLock), 0.5, "a lock and an unlock")
		}
		if c.Alone && !c.Bare {
			value("history", plan.history.past, c.Name, metricAfter)
		}
	}
	value("history", plan.history.past, unique, metricAfter)
	for _, c := range observed() {
		assert.Positive(t, value("metrics", 1, c.Name, metricObserved))
	}
	checkSharing(t, 3, 6, value)
	checkFree(t, value)
	checkRoll(t, candidates(), value)
	value("sharing", plan.sharing.peers[0], "Mutex", sharing{use: useMutex}.metric(metricEvents))
}

func TestQuickRunMeasuresEverythingOnZooKeeper(t *testing.T) {
	value, goals := quickRun(t, "zk", "hand-off in one process: time")
	plan := quickPlan()

	assert.Equal(t, 19, goals, "those that the sizes of a quick run can show")
	for _, c := range serviceOf(t, "zk").Contestants {
		checkCounts(t, c, value)
		if c.Alone {
			want := map[bool]float64{true: 2, false: 3}[c.Ours || c.Bare]
			assert.InDelta(t, want, value("alone", 1, c.Name, metricPerLock), 0.5, "zk.Lock lists as well")
		}
		if c.Ours && !c.Alone {
			continue // nothing need be sent before the last grant
		}
		for _, n := range plan.line.sizes {
			assert.Greater(t, value("line", n, c.Name, metricBytes), 100.0, "a delete, its answer, an event")
		}
	}
	n := plan.line.together[0]
	theirs, ours := value("line", n, "zk.Lock, one Conn", metricBytes), value("line", n, stand.OursOneSession, metricBytes)
	assert.Greater(t, theirs, float64(n)*40, "each waiter reads all names")
	assert.Less(t, ours, theirs)
	checkSharing(t, 2, 16, value)
	checkFree(t, value)
	checkRoll(t, candidates()[:2], value)
	value("sharing", plan.sharing.peers[0], "zk.Lock", sharing{use: useMutex}.metric(metricEvents))
}

func TestQuickRunMeasuresEverythingOnPostgres(t *testing.T) {
	value, goals := quickRun(t, "postgres", "hand-off in one process: time, against an unlock with no waiter")
	plan := serviceOf(t, "postgres").plan(quick)

	assert.Equal(t, 10, goals, "those that the sizes of a quick run can show")
	for _, c := range serviceOf(t, "postgres").Contestants {
		checkCounts(t, c, value)
		if c.Alone {
			assert.InDelta(t, 2, value("alone", 1, c.Name, metricPerLock), 0.1, "a lock and an unlock")
		}
		connections := float64(plan.churn.sizes[0])
		switch c.Name {
		case stand.Ours:
			connections *= 3
		case stand.OursOneSession:
			connections = 3
		case pgstand.LeaseOneConn:
			connections = 1
		}
		assert.InDelta(t, connections, value("churn", plan.churn.sizes[0], c.Name, metricConnections), 0.1, "%s", c.Name)
	}
	waiters := plan.rest.waiters
	assert.Less(t, value("rest", waiters, stand.OursOneSession, metricAtRest), 6.0)
	assert.Greater(t, value("rest", waiters, pgstand.LeaseOneConn, metricAtRest), 10.0*float64(waiters))
	assert.Positive(t, value("wear", plan.wear.past, pgstand.Lease, metricLast))
	assert.Positive(t, value("wear", plan.wear.past, stand.Ours, metricNewest))
}

func TestQuickRunMeasuresEverythingOnRedis(t *testing.T) {
	value, goals := quickRun(t, "redis", "hand-off in a queue: time")
	plan := serviceOf(t, "redis").plan(quick)

	assert.Equal(t, 12, goals, "those that the sizes of a quick run can show")
	n := plan.churn.sizes[0]
	for _, c := range serviceOf(t, "redis").Contestants {
		checkCounts(t, c, value)
		if c.Alone {
			assert.InDelta(t, 2, value("alone", 1, c.Name, metricPerLock), 0.1, "a lock and an unlock")
		}
		connections := float64(n)
		if c.Ours && c.Alone {
			connections *= 3
		}
		if c.Alone {
			assert.InDelta(t, connections, value("churn", n, c.Name, metricConnections), 0.1, "%s", c.Name)
		}
		assert.Greater(t, value("churn", n, c.Name, metricCommands), 3.0, "%s: a set, a get and a delete", c.Name)
		assert.Positive(t, value("churn", n, c.Name, metricCPU))
		assert.Positive(t, value("churn", n, c.Name, metricGap))
	}
	assert.LessOrEqual(t, value("churn", n, stand.Ours, metricTurns), 1.0, "it is fair")
	assert.Less(t, value("rest", plan.rest.waiters, stand.OursOneSession, metricAtRest), 6.0)
	assert.InDelta(t, 3, value("crowd", plan.crowd.waiters, crowdName, metricConnections), 0.5, "the holder may have no watch yet")
	assert.Positive(t, value("crowd", plan.crowd.waiters, crowdName, metricJoinsPerCPU))
}

// checkCounts checks the counts that are the same on all services.
func checkCounts(t *testing.T, c stand.Contestant, value func(string, int, string, string) float64) {
	t.Helper()
	plan := quickPlan()
	waiters := plan.memory.waiters
	if c.Alone {
		waiters = plan.memory.sessions
		value("alone", 1, c.Name, metricCycle)
	}
	if !c.Bare {
		value("memory", waiters, c.Name, metricGoroutines)
	}
	value("far", plan.far.size, c.Name, metricHandOffP50)
	for _, n := range plan.line.sizes {
		value("line", n, c.Name, metricHandOff)
	}
	if !c.Alone {
		value("pass", plan.pass.size, c.Name, metricHandOff)
		value("pass", plan.pass.size, c.Name, metricRate)
	}
	if c.Ours && !c.Alone {
		value("line", plan.line.together[0], c.Name, metricJoins)
	}
	share := value("churn", plan.churn.sizes[0], c.Name, metricShare)
	assert.Greater(t, share, 0.0)
	assert.LessOrEqual(t, share, 1.0)
	if c.Bare {
		return // nothing else is measured of it
	}
	perLock := value("requests", plan.requests.size, c.Name, metricPerLock)
	assert.GreaterOrEqual(t, perLock, 2.0, "%s: a join and a leave", c.Name)
	if c.Ours { // how often a peer tries depends on the time
		assert.LessOrEqual(t, perLock, 30.0, "%s", c.Name)
	}
	deletes := 1.0
	if c.Ours && !c.Alone {
		deletes = 0 // the lock is passed on before it is sent
	}
	assert.GreaterOrEqual(t, value("requests", plan.requests.size, c.Name, metricMost), deletes, "%s: the delete", c.Name)
	assert.GreaterOrEqual(t, value("requests", plan.requests.size, c.Name, metricPerHandOff), deletes, "%s: the delete", c.Name)
}

// checkSharing checks what a release causes among many waiters. The bounds are valid for any number
// of waiters, so a plan with one size can check them.
func checkSharing(t *testing.T, inVain, requests float64, value func(string, int, string, string) float64) {
	t.Helper()
	p := quickPlan().sharing
	n := p.sizes[0]
	of := func(use, what string) float64 { return value("sharing", n, stand.Ours, sharing{use: use}.metric(what)) }
	for _, use := range []string{useMutex, useElection, useSemaphore(p.limits[0]), useSemaphore(p.limits[1]), useWriters(p.writers)} {
		assert.GreaterOrEqual(t, of(use, metricEvents), 1.0, "%s: the granted client gets an event", use)
		assert.LessOrEqual(t, of(use, metricEvents), 6.0, use)
		assert.LessOrEqual(t, of(use, metricInVain), inVain, use)
		assert.GreaterOrEqual(t, of(use, metricInvolved), 1.0, "%s: a delete", use)
		most := requests
		if use != useMutex && use != useElection && use != useWriters(p.writers) {
			// The first waiter reads before it watches, because in a fast queue that read grants it.
			// It reads again when its watches are armed. A hold of a second stores since when it
			// holds.
			most += 3
		}
		assert.LessOrEqual(t, of(use, metricAll), most, use)
	}
	assert.LessOrEqual(t, of(useRapid(p.rapid), metricEvents), 6.0)
	assert.GreaterOrEqual(t, of(useReadersBehind, metricEvents), float64(n), "all are let in")
	assert.Zero(t, of(useReadersBehind, metricInVain))
	assert.Zero(t, of(useOldestReader, metricInVain), "other readers are between it and the writer")
	assert.LessOrEqual(t, of(useNearestReader, metricInVain), 1.0, "one writer")
}

// checkFree checks the cost of one more acquisition behind many holders. Requests that are
// sent together are one round trip only if none is answered before the last has left, so a
// test bounds the requests.
func checkFree(t *testing.T, value func(string, int, string, string) float64) {
	t.Helper()
	for _, use := range []string{useFreeReader, useFreePermit} {
		of := func(metric string) float64 { return value("free", quickPlan().free.sizes[0], stand.Ours, metric) }
		assert.GreaterOrEqual(t, of(metricFree(use)), 1.0, "%s: the join", use)
		assert.GreaterOrEqual(t, of(metricRoundTrips(use)), 1.0, "%s: the join", use)
		assert.LessOrEqual(t, of(metricFree(use)), 6.0, "%s: a join, and at most two reads of queue, holders and limit", use)
	}
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

// membackend needs no server, and the workers are built from this checkout, so this test checks all
// of -old. It compares two builds of the same commit.
func TestQuickRunComparesWithAnEarlierCommit(t *testing.T) {
	dir := t.TempDir()
	var out, progress strings.Builder
	mem := serviceOf(t, "mem")
	o := buildHead(t)
	mem = o.with(mem)
	b := &bench{service: mem, plan: mem.plan(quick), record: newRecord(), progress: &progress, start: time.Now(), old: o}

	require.NoError(t, b.run(t.Context(), func(string) bool { return true }), "%s", &progress)
	r := newReport(b, "")
	require.NoError(t, r.print(&out))
	require.NoError(t, r.write(dir, &progress))

	for _, name := range []string{stand.Ours, stand.OursOneSession} {
		for _, k := range []key{
			{"churn", stand.Single, 2, name, metricRate},
			{"line", stand.Single, 5, name, metricHandOffP50},
		} {
			assert.NotNil(t, b.record.get(k), "%v", k)
			assert.NotNil(t, b.record.versus(k, mem.earlier(name)), "%v", k)
		}
	}
	assert.Contains(t, out.String(), "fairlock : HEAD")
	assert.Contains(t, out.String(), o.Commit)
	var written struct {
		Old    old
		Ratios []ratio
	}
	text, err := os.ReadFile(filepath.Join(dir, "mem.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &written))
	assert.Equal(t, o.Commit, written.Old.Commit)
	assert.NotEmpty(t, written.Ratios)
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-on", "consul"}, `"consul" is none of etcd, zk, postgres, redis, mem, all`},
		{[]string{"-cluster", "five"}, `"five" is none of single, single-fsync, two, two-fsync, three, three-fsync`},
		{[]string{"-cluster", "three+soon"}, `"three+soon" does not end with a time`},
		{[]string{"-run", "("}, "-run"},
		{[]string{"-sizes", "10,many"}, `-sizes: "many" is no number of contenders`},
		{[]string{"-sizes", "0"}, `-sizes: "0" is no number of contenders`},
		{[]string{"-quick", "-full"}, "exclude each other"},
		{[]string{"-old", "HEAD", "-cpuprofile", "p"}, "-old and -cpuprofile exclude each other"},
		{[]string{"churn"}, "no arguments other than flags"},
	} {
		_, err := parse(c.args, io.Discard)
		require.ErrorContains(t, err, c.want)
	}

	p, err := parse([]string{"-run", "line|far", "-on", "zk", "-cluster", "single, three-fsync+10ms", "-rounds", "7", "-sizes", "3, 20,3"}, io.Discard)
	require.NoError(t, err)
	assert.True(t, p.only.MatchString("far"))
	assert.False(t, p.only.MatchString("churn"))
	require.Len(t, p.services, 1)
	plan := p.planFor(p.services[0])
	assert.Equal(t, []stand.Kind{stand.Single, stand.ThreeFsync.Far(10 * time.Millisecond)}, plan.on(usualKinds()))
	assert.Equal(t, []stand.Kind{stand.ThreeFsync.Far(10 * time.Millisecond)}, plan.farClusters())
	assert.Equal(t, 7, plan.rounds)
	assert.Equal(t, []int{3, 20}, plan.churn.sizes)
	assert.Equal(t, []int{3, 20}, plan.line.sizes)
	assert.Empty(t, plan.line.together, "a size is not measured twice")
	assert.Equal(t, "results", p.dir)

	p, err = parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Len(t, p.services, 5)
	plan = p.planFor(p.services[1])
	assert.Equal(t, usualKinds(), plan.on(usualKinds()))
	plan.only = []stand.Kind{stand.Single}
	assert.Equal(t, plan.far.clusters, plan.farClusters(), "there is none with a round trip among them")
}
