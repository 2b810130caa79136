//go:build failpoints

package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/report"
	"github.com/fairlock/fairlock/robustness/trial"
)

// verify runs the tests. It does not check for goroutines, because failpoints may leave
// some.
func verify(m *testing.M) { os.Exit(m.Run()) }

// TestAimedFaultsFindPlantedDefects enables one failpoint after another. A few trials of
// the kind of fault that is aimed at it must find it, on real servers.
func TestAimedFaultsFindPlantedDefects(t *testing.T) {
	defer failpoint.Disable()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	svc, err := onetcd.Start(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(svc, trial.Ours, 1)

	for _, c := range []struct {
		point    failpoint.Point
		kind     string
		trials   int
		property string
		recipes  []history.Recipe // nil: all
	}{
		{failpoint.NoDeadline, "holder-cut", 12, "L2", nil},
		{failpoint.NoRecheck, "waiter-entry-deleted", 12, "S4", nil},
		{failpoint.PredecessorGone, "waiter-entry-deleted", 12, "S1", nil},
		{failpoint.NoLeaveOnCancel, "lost-watch", 12, "S5", nil},
		{failpoint.ReaderPasses, "leader-moved", 24, "S4", []history.Recipe{history.ReadWrite}}, // a fourth has a reader, a writer and a reader alone
		{failpoint.TokenByClock, "leader-moved", 12, "S4", nil},                                 // the token is that of an entry that never existed
	} {
		t.Run(c.point.String(), func(t *testing.T) {
			test.Recipes = c.recipes
			failpoint.Enable(c.point)
			rs, err := test.Round(ctx, c.kind, c.trials)
			failpoint.Disable()
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
			}
			t.Logf("%s finds it in so many of %d trials: %v", c.kind, len(rs), found)
			assert.Positive(t, found[c.property], c.property)
		})
	}
}

// TestAimedFaultOverTLSFindsPlantedDefect does the same for one failpoint on ZooKeeper with TLS,
// where the trials see the packets only behind a terminator.
func TestAimedFaultOverTLSFindsPlantedDefect(t *testing.T) {
	defer failpoint.Disable()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	svc, err := onzk.Start(ctx, onzk.TLS)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()

	failpoint.Enable(failpoint.NoDeadline)
	rs, err := trial.New(svc, trial.Ours, 1).Round(ctx, "holder-cut", 4)
	failpoint.Disable()

	require.NoError(t, err)
	for _, r := range rs {
		assert.Empty(t, r.Missed, r.Queue)
		assert.Equal(t, onzk.TLS, r.Transport)
		t.Logf("%s: %v", r.Queue, r.Violations)
	}
	assert.Positive(t, violating(rs, "L2"))
}
