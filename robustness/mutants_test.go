package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/itest/mutant"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/report"
	"github.com/fairlock/fairlock/robustness/trial"
)

var (
	mutantsFlag  = flag.Bool("mutants", false, "TestAimedFaultsFindPlantedBugs builds the trials with each planted bug")
	faultFlag    = flag.String("fault", "", "the kind of fault that TestAimedFaultFinds aims")
	trialsFlag   = flag.Int("trials", 0, "how many trials it makes")
	recipeFlag   = flag.String("recipe", "", "the recipe of the trials; all if empty")
	propertyFlag = flag.String("property", "", "the property that a trial must find violated")
	overFlag     = flag.String("over", "", "the service and transport; etcd if empty, PostgreSQL or Redis if a setup of that")
)

// verify runs the tests, and fails if they leave goroutines. A planted bug may leave some.
func verify(m *testing.M) {
	flag.Parse()
	if *faultFlag != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

// overTLS is trials on ZooKeeper with TLS, where they see the packets only behind a terminator.
const overTLS = "zk tls"

// TestAimedFaultsFindPlantedBugs plants one bug after another. A few trials of the kind of fault
// that is aimed at it must find it, on real servers.
func TestAimedFaultsFindPlantedBugs(t *testing.T) {
	if !*mutantsFlag {
		return
	}
	var all []mutant.Mutant
	for _, folder := range []string{"../itest/mutant", "../internal/observed/mutants", "../recipes/election/mutants", "onpg/mutants", "onredis/mutants"} {
		some, err := mutant.All(folder)
		require.NoError(t, err)
		all = append(all, some...)
	}
	for _, c := range []struct {
		mutant   string
		kind     string
		trials   int
		property string
		recipe   history.Recipe // "": all
		over     string
	}{
		{"NoDeadline", "holder-cut", 12, "L2", "", ""},
		{"NoRecheck", "waiter-entry-deleted", 12, "S4", "", ""},
		{"PredecessorGone", "waiter-entry-deleted", 12, "S1", "", ""},
		{"NoLeaveOnCancel", "lost-watch", 12, "S5", "", ""},
		{"ReaderPasses", "leader-moved", 24, "S4", history.ReadWrite, ""}, // a fourth has a reader, a writer and a reader alone
		{"TokenByClock", "leader-moved", 12, "S4", "", ""},                // the token is that of an entry that never existed
		{"HandsOverAgain", "rollout-newer-cut", 12, "L1", "", ""},
		{"NoDeadline", "holder-cut", 4, "L2", "", overTLS},
		{"LifeUnchecked", "promotion-of-a-lagging", 4, "S1", "", onpg.Asynchronous},
		{"BlessWithoutWaiting", "promotion-of-a-lagging", 4, "S1", "", onpg.Asynchronous},
		{"NoDeadline", "holder-cut", 4, "L2", "", onpg.Direct},
		{"RenewalWithoutWait", "split-third-moves-early", 8, "L2", history.Mutex, onredis.Replicas},
		{"UnprovenCounts", "split-third-moves-last", 8, "L2", history.Mutex, onredis.Replicas},
		{"BlessWithoutWaiting", "promotion", 4, "S1", "", onredis.Replicas},
	} {
		t.Run(c.mutant+c.over, func(t *testing.T) {
			i := slices.IndexFunc(all, func(m mutant.Mutant) bool { return m.Name == c.mutant })
			require.GreaterOrEqual(t, i, 0)
			exe, err := all[i].Build(t.Context(), "..", ".", t.TempDir())
			require.NoError(t, err)
			said, err := exec.CommandContext(t.Context(), exe, "-test.run=^TestAimedFaultFinds$", "-test.v",
				"-fault="+c.kind, "-trials="+strconv.Itoa(c.trials), "-recipe="+string(c.recipe), "-property="+c.property, "-over="+c.over).CombinedOutput()
			t.Log(string(said))
			assert.NoError(t, err)
		})
	}
}

// TestAimedFaultFinds runs trials of one kind of fault, and asserts that one finds a property
// violated. TestAimedFaultsFindPlantedBugs runs it in a build that has a planted bug.
func TestAimedFaultFinds(t *testing.T) {
	if *faultFlag == "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var svc trial.Service
	var err error
	switch {
	case *overFlag == overTLS:
		svc, err = onzk.Start(ctx, onzk.TLS)
	case slices.Contains(onpg.Setups(), *overFlag):
		svc, err = onpg.Start(ctx, *overFlag)
	case slices.Contains(onredis.Setups(), *overFlag):
		svc, err = onredis.Start(ctx, *overFlag)
	default:
		svc, err = onetcd.Start(ctx)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(svc, trial.Ours, 1)
	if *recipeFlag != "" {
		test.Recipes = []history.Recipe{history.Recipe(*recipeFlag)}
	}

	rs, err := test.Round(ctx, *faultFlag, *trialsFlag)
	require.NoError(t, err)

	found := map[string]int{}
	for _, p := range report.Properties() {
		if n := violating(rs, p); n > 0 {
			found[p] = n
		}
	}
	for _, r := range rs {
		if !r.Hit() {
			t.Logf("%s missed: %s", r.Queue, r.Missed)
		}
		if *overFlag == overTLS {
			assert.Equal(t, onzk.TLS, r.Transport)
		}
	}
	t.Logf("%s finds it in so many of %d trials: %v", *faultFlag, len(rs), found)
	assert.Positive(t, found[*propertyFlag], *propertyFlag)
}
