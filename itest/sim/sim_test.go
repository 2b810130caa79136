package sim

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
)

var (
	baseFlag     = flag.Uint64("base", 0, "the first seed of TestRecipes; a random one if 0")
	seedsFlag    = flag.Int("seeds", 0, "how many seeds TestRecipes tries; as many as there is time for if 0")
	durationFlag = flag.Duration("duration", 0, "how long TestRecipes may take; 10 s if neither this nor -seeds is given")
)

// tally adds up the results of runs.
type tally struct {
	runs, steps, grants, lost int
	time                      time.Duration
	faults, recipes, broken   map[string]int
}

func newTally() *tally {
	return &tally{faults: map[string]int{}, recipes: map[string]int{}, broken: map[string]int{}}
}

func (y *tally) add(r Result) {
	y.runs++
	y.steps += r.Steps
	y.grants += r.Grants
	y.lost += r.Lost
	y.time += r.Time
	y.recipes[r.Recipe]++
	for f, n := range r.Faults {
		y.faults[f] += n
	}
	for _, v := range r.Violations {
		property, _, _ := strings.Cut(v, " ")
		y.broken[property]++
	}
}

func counts(m map[string]int) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", k, m[k])
	}
	return b.String()
}

func (y *tally) String() string {
	return fmt.Sprintf("runs %d (%s)\nsteps %d, virtual time %s, grants %d, holds lost %d\nfaults: %s\nviolations: %s",
		y.runs, counts(y.recipes), y.steps, y.time.Round(time.Second), y.grants, y.lost, counts(y.faults), counts(y.broken))
}

// everything is each kind of fault that enough runs must have had.
var everything = []string{
	"cut Both", "cut Replies", "cut Requests", "doubled", "entry deleted", "foreign entry", "pause", "renewal late",
	"LostRequest", "BrokenRequest", "LostReply", "BrokenReply", "LateRequest", "session ended", "slow", "watches broken",
}

// TestRecipes runs all recipes, with new random seeds.
func TestRecipes(t *testing.T) {
	base, limit := *baseFlag, *durationFlag
	if base == 0 {
		base = rand.Uint64N(1 << 48)
	}
	switch {
	case limit != 0:
	case *seedsFlag != 0:
		limit = 24 * time.Hour
	case testing.Short():
		limit = 2 * time.Second
	default:
		limit = 10 * time.Second
	}
	t.Logf("seeds from %d on: -base %d repeats them", base, base)
	y, failed, began := newTally(), 0, time.Now()
	for seed := base; failed < 5 && time.Since(began) < limit && (*seedsFlag == 0 || seed < base+uint64(*seedsFlag)); seed++ {
		for _, cfg := range configs(seed) {
			r := Run(t, cfg)
			y.add(r)
			if len(r.Violations) > 0 {
				failed++
				t.Errorf("%s, %s: %s\nrepeat: %s\ntrace: %s", r.Recipe, cfg.Kind, strings.Join(r.Violations, "\n  "), cfg.Command(), traceOf(t, cfg))
			}
		}
	}
	took := time.Since(began)
	t.Logf("%s\n%.0f runs/s", y, float64(y.runs)/took.Seconds())

	require.Positive(t, y.grants)
	if y.runs > 300 && *kindFlag == "" && *recipeFlag == "" {
		assert.Len(t, y.recipes, len(recipes()))
		assert.Positive(t, y.lost, "holds were lost")
		for _, f := range everything {
			assert.Positive(t, y.faults[f], "%s: no run had this fault", f)
		}
	}
}

// TestClockBeyondTheMarginIsSeen shows that the oracles of exclusion see what the library
// cannot prevent: a client whose clock is slower than the margin allows trusts its holds
// for too long.
func TestClockBeyondTheMarginIsSeen(t *testing.T) {
	seen := newTally()
	for seed := range uint64(80) {
		for _, cfg := range configs(seed) {
			cfg.SlowClock = true
			seen.add(Run(t, cfg))
		}
	}
	t.Log(seen)
	assert.Greater(t, seen.broken["L2"], 3, "a caller trusted a hold of a session that had expired")
	assert.Positive(t, seen.broken["S1"], "and when another held already")
	for _, property := range []string{"S1'", "S2", "S4", "S5"} { // S6 and L1 count time
		assert.Zero(t, seen.broken[property], "%s does not depend on clocks", property)
	}
}

// TestRunsWithoutFaults: without faults no hold is lost, and no call fails.
func TestRunsWithoutFaults(t *testing.T) {
	y := newTally()
	for seed := range uint64(30) {
		for _, cfg := range configs(seed) {
			cfg.Calm = true
			r := Run(t, cfg)
			require.Empty(t, r.Violations, cfg.Command())
			y.add(r)
		}
	}
	assert.Empty(t, y.faults)
	assert.Greater(t, y.grants, 10*y.runs)
}

// TestAnEventThatIsSentDuringACutNeverArrives: not even if the cut ends before the scheduler gets
// to the event.
func TestAnEventThatIsSentDuringACutNeverArrives(t *testing.T) {
	w := newSimulation(Config{})
	c := &client{w: w}
	for _, cut := range fault.Directions() {
		c.cut = cut
		c.Deliver("m1", "gone", func() {})
		c.cut = 0
		assert.Len(t, w.rest(), map[bool]int{true: 1}[cut == fault.Requests], "%v", cut)
	}
}
