package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "the seed that TestReplay repeats")
	recipeFlag = flag.String("recipe", "", "the recipe of the runs; drawn if empty")
	kindFlag   = flag.String("kind", "", "the kind of service that TestReplay repeats it on; all if empty")
)

// configs returns the runs of one seed, on each kind of service or on the one of -kind.
func configs(seed uint64) []Config {
	var all []Config
	for _, k := range memtest.AllKinds() {
		if *kindFlag == "" || *kindFlag == k.Name {
			all = append(all, Config{Seed: seed, Kind: k.Name, Service: k.Options, Recipe: *recipeFlag})
		}
	}
	return all
}

// traceOf writes the trace of a run that failed, and returns the path of the file.
func traceOf(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Trace = true
	path := filepath.Join(os.TempDir(), fmt.Sprintf("fairlock-sim-%s-%d.txt", cfg.Kind, cfg.Seed)) // it outlives the test
	require.NoError(t, os.WriteFile(path, []byte(Run(t, cfg).Trace), 0o644))
	return path
}

// TestReplay repeats a run, and shows its trace.
func TestReplay(t *testing.T) {
	for _, cfg := range configs(*seedFlag) {
		t.Run(cfg.Kind, func(t *testing.T) {
			cfg.Trace = true
			r := Run(t, cfg)
			if testing.Verbose() {
				t.Log(r.Recipe + "\n" + r.Trace)
			}
			for _, v := range r.Violations {
				t.Error(v)
			}
		})
	}
}

// TestSeedIsOneRun checks what makes a failure repeatable: a seed gives the
// same trace, byte for byte, however many processors there are.
func TestSeedIsOneRun(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		for _, cfg := range configs(seed) {
			cfg.Trace = true
			runtime.GOMAXPROCS(1)
			first := Run(t, cfg)
			require.NotEmpty(t, first.Trace)
			for _, n := range []int{1, 2, 2, 8} {
				runtime.GOMAXPROCS(n)
				again := Run(t, cfg)
				if !assert.Equal(t, first.Trace, again.Trace, "seed %d, %s, %s, %d processors", seed, cfg.Kind, first.Recipe, n) {
					return
				}
				require.Equal(t, first.Hash, again.Hash)
			}
		}
	}
}

// TestACutIsAFaultUntilItEnds: no client is expected to get a grant in time while its
// requests are lost, however long ago that began.
func TestACutIsAFaultUntilItEnds(t *testing.T) {
	w := newSimulation(Config{Calm: true})
	defer w.end()
	c := w.clients[0]
	w.now.Store(int64(time.Minute))
	w.noteFault(c, "cut Requests", "")
	c.cut = fault.Requests
	w.now.Store(int64(2 * time.Minute))

	assert.Equal(t, 2*time.Minute, c.lastFault(), "it still is")
	c.cut = 0
	assert.Equal(t, time.Minute, c.lastFault())
}

// TestFoundSeeds repeats runs that have found bugs. A change of what is drawn makes
// them runs like any other.
func TestFoundSeeds(t *testing.T) {
	for _, found := range []struct {
		seed uint64
		kind string
	}{
		{77550804338425, "Plain"}, // a watch reported the next release while requests were cut off
		{77550804333213, "Lagging"},
		{136730338382938, "LikeZooKeeper"}, // others got the event of a limit before the answer to a join came
	} {
		for _, cfg := range configs(found.seed) {
			if cfg.Kind == found.kind {
				assert.Empty(t, Run(t, cfg).Violations, cfg.Command())
			}
		}
	}
}
