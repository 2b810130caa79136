package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/itest/regime/onetcd"
	"github.com/fairlock/fairlock/itest/regime/trial"
)

// TestMain runs the tests and then looks for goroutines that they left. Some start
// this binary again as a client process.
func TestMain(m *testing.M) {
	if code, isChild := trial.Child(openers()); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestShortRegime plays a few trials of every kind: Fairlock's keep all promises,
// and the peer's known defect is found in the same way in which ours would be.
func TestShortRegime(t *testing.T) {
	const seed = 1
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	svc, err := onetcd.Start(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	ours, theirs := trial.New(svc, trial.Ours, seed), trial.New(svc, onetcd.Stock, seed)
	clients, servers, err := ours.Kinds(ctx)
	require.NoError(t, err)

	rs := &results{of: map[string][]*trial.Result{}}
	var mu sync.Mutex
	play := func(kind string, n int) {
		got, err := ours.Round(ctx, kind, n)
		mu.Lock()
		defer mu.Unlock()
		if !errors.Is(err, errors.ErrUnsupported) {
			assert.NoError(t, err)
		}
		rs.keep(kind, got)
	}
	room := make(chan struct{}, 4) // kinds at the same time
	var all sync.WaitGroup
	for _, kind := range clients {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			play(kind, 4)
		})
	}
	var known []*trial.Result
	all.Go(func() {
		var err error
		known, err = theirs.Round(ctx, "holder-cut", 12)
		assert.NoError(t, err)
	})
	all.Wait()
	for _, kind := range servers {
		play(kind, 4)
	}

	for _, kind := range slices.Concat(clients, servers) {
		for _, r := range rs.of[kind] {
			assert.Empty(t, r.Missed, "%s %s", r.Line, r.Recipe)
			if !assert.Empty(t, r.Violations, "%s %s", r.Line, r.Recipe) {
				assert.NoError(t, r.Write(t.ArtifactDir()))
			}
		}
	}
	found := 0
	for _, r := range known {
		assert.Empty(t, r.Missed, r.Line)
		if len(r.Violations) > 0 {
			found++
		}
	}
	assert.Positive(t, found, "trials of %s with violations", onetcd.Stock)
	rs.keep(onetcd.Stock, known)
	rs.print(t.Output())
	fmt.Fprintf(t.Output(), "%s: %d of %d trials of its holders being cut off with violations\n", onetcd.Stock, found, len(known))
}
