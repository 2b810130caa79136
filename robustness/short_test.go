package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// TestMain runs the tests and then looks for goroutines that they left. Some start
// this binary again as a client process.
func TestMain(m *testing.M) {
	if code, isChild := trial.Child(openers()); isChild {
		os.Exit(code)
	}
	verify(m)
}

// knownDefect is a defect of a peer's lock. Trials of this kind of fault must find it at
// least once, in the same way in which they would find one of Fairlock's.
type knownDefect struct {
	lock, kind string
	trials     int
}

// TestAFewTrialsOfEveryKind runs a few trials of every kind, with each transport. Fairlock must
// keep all promises, and the trials must find the peers' known defects.
func TestAFewTrialsOfEveryKind(t *testing.T) {
	defects := map[string]knownDefect{
		onetcd.Name:  {onetcd.Stock, "holder-cut", 12},
		onzk.Name:    {onzk.Stock, "waiter-entry-deleted", 4}, // the next waiter takes the deletion for a release
		onpg.Name:    {onpg.Advisory, "holder-cut", 2},        // the server does not see that the connection is gone
		onredis.Name: {onredis.Redsync, "holder-stopped", 4},  // no token refuses what it wrote before it was stopped
	}
	for _, s := range services() {
		c := &campaign{service: s, lock: trial.Ours}
		for i, transport := range c.turns() {
			t.Run(strings.TrimSpace(s.name+" "+transport), func(t *testing.T) {
				svc, err := s.start(hang.Context(t), transport)
				require.NoError(t, err)
				defer func() { assert.NoError(t, svc.Close()) }()
				defect := defects[s.name]
				if i > 0 { // the peers stay on the default
					defect.trials = 0
				}
				fewTrials(t, svc, defect)
			})
		}
	}
}

// fewTrials gives each round a guard of its own, as the program does: on a busy machine all of them together take
// longer than that, and trials would then miss because their set-up was cut short.
func fewTrials(t *testing.T, svc trial.Service, defect knownDefect) {
	t.Helper()
	const seed = 1
	ours, theirs := trial.New(svc, trial.Ours, seed), trial.New(svc, defect.lock, seed)
	clients, servers, err := ours.Kinds(hang.Context(t))
	require.NoError(t, err)
	rs := &results{of: map[string][]*trial.Result{}}
	var mu sync.Mutex
	round := func(kind string, n int) {
		got, err := ours.Round(hang.Context(t), kind, n)
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		assert.NoError(t, err)
		rs.keep(kind, got)
	}
	slots := make(chan struct{}, 3) // kinds at the same time
	var all sync.WaitGroup
	for _, kind := range clients {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			round(kind, 3)
		})
	}
	var peers []*trial.Result
	all.Go(func() {
		var err error
		peers, err = theirs.Round(hang.Context(t), defect.kind, defect.trials)
		assert.NoError(t, err)
	})
	all.Wait()
	for _, kind := range servers {
		round(kind, 4)
	}

	for _, kind := range slices.Concat(clients, servers) {
		for _, r := range rs.of[kind] {
			assert.Empty(t, r.Missed, "%s %s", r.Queue, r.Recipe)
			if !assert.Empty(t, r.Violations, "%s %s", r.Queue, r.Recipe) {
				assert.NoError(t, r.Write(t.ArtifactDir()))
			}
		}
	}
	if defect.trials == 0 {
		rs.print(t.Output())
		return
	}
	found := 0
	for _, r := range peers {
		assert.Empty(t, r.Missed, r.Queue)
		if len(r.Violations) > 0 {
			found++
		}
	}
	assert.Positive(t, found, "trials of %s with violations", defect.lock)
	rs.keep(defect.lock, peers)
	rs.print(t.Output())
	fmt.Fprintf(t.Output(), "%s: %d of %d trials of %s with violations\n", defect.lock, found, len(peers), defect.kind)
}
