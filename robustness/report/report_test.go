package report

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

var update = flag.Bool("update", false, "write the golden tables")

// services returns the services of the made-up results, which have none of zk.Lock.
func services() []Service {
	return []Service{
		{Name: "etcd", Title: "etcd", Peers: []string{"concurrency.Mutex"}},
		{Name: "zookeeper", Title: "ZooKeeper", Peers: []string{"zk.Lock", "zk.Lock, session only"}, Without: []string{"compaction"}},
	}
}

func read(t *testing.T, folders ...string) *Data {
	t.Helper()
	var paths []string
	for _, f := range folders {
		paths = append(paths, filepath.Join("testdata", f))
	}
	d, err := Read(paths)
	require.NoError(t, err)
	return d
}

// TestTablesOfSeveralRuns adds up two folders, which have damaged lines and files.
func TestTablesOfSeveralRuns(t *testing.T) {
	const golden = "testdata/tables.md"
	is := read(t, "one", "two").Markdown(services())
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(is), 0o644))
	}

	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), is)
}

// TestTransportsAreCountedByThemselves has trials of before there were several transports, which
// name none.
func TestTransportsAreCountedByThemselves(t *testing.T) {
	s := Service{Name: "zookeeper", Without: []string{"disk-full"}, Transports: []string{"NIO", "Netty", "TLS"}}
	clients, servers := trial.Aimed()
	d := &Data{}
	add := func(r trial.Result) {
		r.Service, r.Lock = "zookeeper", trial.Ours
		d.trials = append(d.trials, &r)
	}
	assert.Empty(t, d.transports(s))
	for _, kind := range append(clients, servers...) {
		if kind == "disk-full" {
			continue
		}
		add(trial.Result{Kind: kind})
		add(trial.Result{Kind: kind, Transport: "NIO", Faults: 1})
		add(trial.Result{Kind: kind, Transport: "TLS", Grants: 3})
	}
	add(trial.Result{Kind: "waiter-cut", Transport: "TLS", Missed: "nothing waits"})
	add(trial.Result{Kind: trial.Soak, Transport: "TLS", Violations: []history.Violation{{Property: "S1"}, {Property: "S4"}}})
	d.trials = append(d.trials, &trial.Result{Service: "zookeeper", Lock: "zk.Lock", Kind: "waiter-cut", Transport: "NIO"})

	got := d.transports(s)

	assert.Contains(t, got, "| NIO | 46 | 46 | 2 | 0 | 0 | 23 | 0 | 0 | 0 | ≤ 6.5 % |")
	assert.Contains(t, got, "| Netty | not run |  |")
	assert.Contains(t, got, "| TLS | 25 | 24 | 1 | 1 | 1 | 0 | 69 | 0 | 0 |  |")
	assert.Empty(t, d.transports(Service{Name: "zookeeper"}))
	add(trial.Result{Kind: "lost-join", Transport: "TLS"})
	assert.Contains(t, d.transports(s), "| NIO | 46 | 46 | 0 |", "no lost-join")
}

// TestAFolderCountsOnce names a folder in two ways.
func TestAFolderCountsOnce(t *testing.T) {
	once, twice := read(t, "one"), read(t, "one", "../testdata/one")

	assert.Equal(t, once, twice)
}

// TestPackedFilesAreRead packs the files of a folder, and adds a file that is not gzip.
func TestPackedFilesAreRead(t *testing.T) {
	folder := t.TempDir()
	files, err := filepath.Glob("testdata/one/*")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err = w.Write(text)
		require.NoError(t, errors.Join(err, w.Close()))
		require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(file)+".gz"), packed.Bytes(), 0o600))
	}
	d, err := Read([]string{folder})
	require.NoError(t, err)
	plain := read(t, "one")
	assert.Equal(t, plain.trials, d.trials)
	assert.Equal(t, plain.abouts, d.abouts)
	assert.Len(t, d.Damaged(), len(plain.Damaged()))

	require.NoError(t, os.WriteFile(filepath.Join(folder, "etcd-cut.jsonl.gz"), []byte("no gzip"), 0o600))
	d, err = Read([]string{folder})
	require.NoError(t, err)
	assert.Equal(t, plain.trials, d.trials)
	assert.Len(t, d.Damaged(), len(plain.Damaged())+1)
}

// TestDamagedFilesAreNamed reads half a line, lines that are no trials, and files that
// are no results.
func TestDamagedFilesAreNamed(t *testing.T) {
	d := read(t, "one", "two")

	var files []string
	for _, text := range d.Damaged() {
		file, _, _ := strings.Cut(text, ": ")
		files = append(files, file)
	}
	assert.Equal(t, []string{
		"one/etcd-fairlock.jsonl", "two/etcd-fairlock.jsonl", "two/etcd-fairlock.jsonl", "two/etcd-fairlock.jsonl",
		"two/load-zookeeper.json", "two/zookeeper-fairlock.about.json",
	}, files)
	for _, r := range d.trials {
		assert.NotEmpty(t, r.Kind)
	}
}

func TestFoldersWithoutResultsAreAnError(t *testing.T) {
	_, err := Read([]string{t.TempDir()})
	require.ErrorContains(t, err, "no results")
	_, err = Read([]string{filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Read(nil)
	require.ErrorContains(t, err, "no results")
}

// TestFilesOfARunAreFound writes files as a run does.
func TestFilesOfARunAreFound(t *testing.T) {
	folder := t.TempDir()
	trials, err := os.ReadFile("testdata/two/etcd-concurrency.Mutex.jsonl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(Results(folder, "etcd", "concurrency.Mutex"), trials, 0o600))
	require.NoError(t, (&About{Service: "etcd", Lock: "concurrency.Mutex", Commit: "0123abc"}).Write(folder))

	d, err := Read([]string{folder})

	require.NoError(t, err)
	assert.Len(t, d.trials, 3)
	assert.Len(t, d.abouts, 1)
	assert.Empty(t, d.Damaged())
}

func TestIntoReplacesTheTextBetweenTheMarks(t *testing.T) {
	page, err := Into([]byte("# Page\n\n"+begin+"\nold\n"+end+"\n\nafter\n"), "new\n\n")
	require.NoError(t, err)
	assert.Equal(t, "# Page\n\n"+begin+"\n\nnew\n\n"+end+"\n\nafter\n", string(page))

	again, err := Into(page, "new")
	require.NoError(t, err)
	assert.Equal(t, string(page), string(again))

	for _, bad := range []string{"", begin, end, end + begin, begin + end + begin, begin + end + end} {
		_, err := Into([]byte(bad), "new")
		assert.ErrorIs(t, err, errMarks, bad)
	}
}

// TestPlotShowsEveryObservedCut counts points. Of Fairlock's cuts, three have both times,
// one holder was starved, and one fault missed.
func TestPlotShowsEveryObservedCut(t *testing.T) {
	d := read(t, "one", "two")
	svg, err := d.Plot(services())
	require.NoError(t, err)

	for _, want := range []string{"<svg", "fairlock (3 cuts)", "concurrency.Mutex (2 cuts)", "zk.Lock, session only (1 cuts)"} {
		assert.Contains(t, string(svg), want)
	}
	assert.NotContains(t, string(svg), "zk.Lock (")

	svg, err = (&Data{}).Plot(services())
	require.NoError(t, err)
	assert.Nil(t, svg)
}

func TestBoundFollowsTheRuleOfThree(t *testing.T) {
	for _, c := range []struct {
		y    tally
		want string
	}{
		{tally{}, ""},
		{tally{hit: 3}, ""},
		{tally{hit: 6}, "≤ 50 %"},
		{tally{hit: 300}, "≤ 1.0 %"},
		{tally{hit: 3000}, "≤ 0.10 %"},
		{tally{hit: 320, starved: 20}, "≤ 1.0 %"},
		{tally{hit: 300, violated: 1}, ""},
		{tally{hit: 300, missedViolated: 1}, ""},
	} {
		assert.Equal(t, c.want, c.y.bound(), "%+v", c.y)
	}
}
