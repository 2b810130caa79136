package designs

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/trial"
)

// TestMain runs the tests. Some start this binary again as a client process.
func TestMain(m *testing.M) {
	code, isChild := trial.Child(Openers())
	if !isChild {
		code = m.Run()
	}
	os.Exit(code)
}

// TestTrialsSeeThatThereIsNoLock runs the planted designs: one without any lock under every fault, and one that is
// never released. The trials must find what a lock would have prevented, every time.
func TestTrialsSeeThatThereIsNoLock(t *testing.T) {
	for _, setup := range []string{onredis.Alone, onredis.Logged, onredis.Sentinels} {
		t.Run(setup, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			stand, err := startRedis(ctx, setup)
			require.NoError(t, err)
			defer func() { assert.NoError(t, stand.Close()) }()
			store := storeOf(t, onredis.Name)
			none := DesignOf(onredis.Name, noLock)
			for _, f := range Faults() {
				if !none.On(store, stand, f) {
					continue
				}
				for _, r := range round(ctx, t, stand, none, f, 2) {
					assert.NotEmpty(t, r.Two, f.Name)
					assert.Positive(t, r.Lost, f.Name)
					assert.Empty(t, r.Never, f.Name)
					assert.Empty(t, r.Orphan, f.Name)
				}
			}
			if setup != onredis.Alone {
				return
			}
			for _, r := range round(ctx, t, stand, DesignOf(onredis.Name, neverFree), FaultOf("none"), 2) {
				assert.NotEmpty(t, r.Never)
				assert.NotEmpty(t, r.Orphan)
				assert.Empty(t, r.Two)
			}
		})
	}
}

// TestAFewTrialsOfEachStore runs a few trials on each store: a defect that is known of a design, which the trials
// must find as what it is, and a design that withstands the same fault.
func TestAFewTrialsOfEachStore(t *testing.T) {
	type pair struct {
		design, fault string
		lost          func(*Result) bool // nil for nothing
	}
	two := func(r *Result) bool { return r.Two != "" }
	third := func(r *Result) bool { return r.Third != "" && r.Lost > 0 }
	late := func(r *Result) bool { return r.Lost > 0 && r.Two == "" }
	never := func(r *Result) bool { return r.Never != "" && r.Orphan == "" }
	orphan := func(r *Result) bool { return r.Orphan != "" }
	for store, pairs := range map[string][]pair{
		"redis": {
			{"SET NX PX, script", "none", nil},
			{"SET NX PX, script", "long-work", two},
			{"SET NX PX, DEL", "holder-stopped", third},
			{"SETNX, GETSET", ClockMoved, two},
			{"watchdog, pub/sub", "long-work", nil},
			{"redsync", "holder-stopped", late},
			{"fairlock", "holder-stopped", nil},
		},
		"postgres": {
			{"row", "holder-killed", orphan},
			{"row, monitor", "holder-killed", nil},
			{"for update", "crowd", never},
			{"advisory, pool", Restarted, two},
			{"fairlock", "holder-killed", nil},
		},
		"mariadb": {
			{"row", "release-lost", orphan},
			{"row lease", "holder-stopped", nil},
			{"GET_LOCK, pool", "holder-cut", never},
			{"for update", "none", nil},
		},
		"zookeeper": {
			{"predecessor gone", "waiter-dies", two},
			{"one ephemeral node", "waiter-dies", nil},
			{"zk.Lock", "release-lost", never},
			{"fairlock", "waiter-dies", nil},
		},
		"etcd": {
			{"concurrency.Mutex", "release-lost", never},
			{"fairlock", "release-lost", nil},
		},
	} {
		t.Run(store, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			s := storeOf(t, store)
			stand, err := s.Start(ctx, s.Setups[0])
			require.NoError(t, err)
			defer func() { assert.NoError(t, stand.Close()) }()
			for _, p := range pairs {
				for _, r := range round(ctx, t, stand, DesignOf(store, p.design), FaultOf(p.fault), 2) {
					if p.lost == nil {
						assert.False(t, r.Violated(), "%+v", *r)
					} else {
						assert.True(t, p.lost(r), "%+v", *r)
					}
				}
			}
		})
	}
}

// round runs rounds until n trials count: each has to, if the machine does not stall.
func round(ctx context.Context, t *testing.T, s Stand, d *Design, f *Fault, n int) []*Result {
	t.Helper()
	require.NotNil(t, d)
	var y tally
	var all []*Result
	for number := int64(1); len(all) < n; number++ {
		rs, err := Round(ctx, s, d, f, 1, number, n)
		require.NoError(t, err)
		for _, r := range rs {
			if r.Missed != "" {
				require.Contains(t, r.Missed, stalled, "%s under %s", d.Name, f.Name)
				continue
			}
			y.add(r)
			all = append(all, r)
		}
	}
	t.Logf("%-20s %-18s %s", d.Name, f.Name, y.cell())
	return all
}

func storeOf(t *testing.T, name string) *Store {
	t.Helper()
	for _, s := range Stores() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no store %q", name)
	return nil
}

// TestMeasureSeesTheOrder measures a design that polls and one with a queue.
func TestMeasureSeesTheOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stand, err := startRedis(ctx, onredis.Alone)
	require.NoError(t, err)
	defer func() { assert.NoError(t, stand.Close()) }()

	polls, err := Measure(ctx, stand, DesignOf(onredis.Name, "SET NX PX, script"))
	require.NoError(t, err)
	queue, err := Measure(ctx, stand, DesignOf(onredis.Name, trial.Ours))
	require.NoError(t, err)

	assert.Greater(t, polls.Overtaken, queue.Overtaken)
	assert.Greater(t, polls.PerGrant, queue.PerGrant)
}

func TestOrderCountsWhoWentAhead(t *testing.T) {
	m := &Measured{}

	m.order([]int{0, 3, 1, 2})

	assert.Equal(t, 1, m.Overtaken)
	assert.Equal(t, 1, m.Worst)

	m.order([]int{3, 2, 1, 0})

	assert.Equal(t, 1+3, m.Overtaken)
	assert.Equal(t, 3, m.Worst)
}

// TestAVersionColumnLosesNothing: without it, programs lose each other's changes, and by comparing the value they
// take a row for unchanged that has changed twice.
func TestAVersionColumnLosesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	all, err := Optimistic(ctx, t.TempDir())

	require.NoError(t, err)
	require.Len(t, all, 6)
	for _, v := range all[:2] {
		assert.Positive(t, v.Lost, v.Compare)
		assert.Equal(t, abas, v.Stale, v.Compare)
	}
	for _, v := range all[2:4] {
		assert.Zero(t, v.Lost, v.Compare)
		assert.Equal(t, abas, v.Stale, v.Compare)
	}
	for _, v := range all[4:] {
		assert.Zero(t, v.Lost, v.Compare)
		assert.Zero(t, v.Stale, v.Compare)
		assert.Positive(t, v.Refused, v.Compare)
	}
}

// TestThePageIsDrawn draws results of every kind, so that no cell is forgotten.
func TestThePageIsDrawn(t *testing.T) {
	var data Data
	for _, s := range Stores() {
		data.abouts = append(data.abouts, &About{Store: s.Name, Commit: "abc", Each: 3, Seed: 7})
	}
	data.trials = []*Result{
		{Stand: "redis", Design: "SET NX PX, DEL", Fault: "holder-stopped", Seed: 7, Round: 1, Two: "x", Third: "y", Lost: 1},
		{Stand: "redis", Design: "SET NX PX, DEL", Fault: "holder-stopped", Seed: 7, Round: 1, Two: "x"},
		{Stand: "redis", Design: "SET NX PX, DEL", Fault: "holder-stopped", Seed: 7, Round: 1},
		{Stand: "redis", Design: "SET NX PX, DEL", Fault: "none", Missed: "late"},
		{Stand: "postgres", Design: "row", Fault: "holder-killed", Seed: 7, Round: 2, Never: "n", Orphan: "o"},
		{Stand: "etcd", Design: "fairlock", Fault: "holder-stopped", Seed: 7, Tokens: true, Unfenced: 1, FaultToGrant: time.Second},
	}
	data.measures = []*Measured{{Stand: "redis", Design: "fairlock", Waiters: 10, Grants: 50, HandOver: time.Millisecond}}

	page := data.Markdown()

	assert.Contains(t, page, "| Redis | `SET NX PX, DEL` | 3 | – | – | 2 **2** **3**×1 **U**×1 |")
	assert.Contains(t, page, "| PostgreSQL | `row` | 1 | – | 1 **N** **O** |")
	assert.Contains(t, page, "| etcd | `fairlock` | 1 | 1 | 0 |")
	assert.Contains(t, page, "go -C robustness run ./designs/run -on postgres -lock 'row' -fault holder-killed -each 3 -seed 7 -round 2\n")
	assert.NotContains(t, page, "-fault none")
	assert.Contains(t, page, "Of 6 trials, 0 do not count because the machine ran nothing for more than 1s, and 1 for other reasons, of which the last one: late.")
	for _, plot := range []func() ([]byte, error){data.PlotLost, data.PlotLoad} {
		picture, err := plot()
		require.NoError(t, err)
		assert.Contains(t, string(picture), "fairlock")
	}
}

// TestACampaignWritesWhatItIsDrawnFrom runs one pair, and reads what it wrote.
func TestACampaignWritesWhatItIsDrawnFrom(t *testing.T) {
	folder := t.TempDir()
	c := &Campaign{Stores: []string{"mariadb"}, Locks: []string{"for update"}, Faults: []string{"none"}, Each: 1, Parallel: 1, Seed: 1, Out: folder, Trials: true, Measures: true, Log: io.Discard}

	require.NoError(t, c.Run(t.Context()))

	data, err := Read(folder)
	require.NoError(t, err)
	assert.Len(t, data.trials, 1)
	assert.Len(t, data.measures, 1)
	assert.Len(t, data.abouts, 1)
	page := filepath.Join(folder, "page.md")
	require.NoError(t, os.WriteFile(page, []byte("<!-- robustness:begin -->\n<!-- robustness:end -->\n"), 0o600))
	require.NoError(t, Draw(folder, page, io.Discard))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(text), "| MariaDB | `for update` | 1 | 0 | – |")
	assert.FileExists(t, filepath.Join(folder, LostPicture))
}
