package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/report"
	"github.com/fairlock/fairlock/robustness/trial"
)

// emptyService is a service without any kinds of faults.
type emptyService struct {
	trial.Service
	closed *int
}

func (emptyService) Locks() []string { return []string{trial.Ours} }

func (emptyService) Client(context.Context, string, ...int) (trial.Client, error) {
	return emptyClient{}, nil
}

func (s emptyService) Close() error {
	*s.closed++
	return nil
}

type emptyClient struct{ trial.Client }

func (emptyClient) Kinds() []string { return nil }
func (emptyClient) Close() error    { return nil }

// TestReopenChangesTheSeed replaces a service, and then one whose successor does not
// start.
func TestReopenChangesTheSeed(t *testing.T) {
	closed, started, broken := 0, 0, error(nil)
	c := &campaign{lock: trial.Ours, seed: 7, service: service{name: "empty", start: func(context.Context, string) (trial.Service, error) {
		started++
		return emptyService{closed: &closed}, broken
	}}}
	require.NoError(t, c.open(t.Context()))
	first := c.test

	require.NoError(t, c.reopen(t.Context()))
	assert.Equal(t, 2, started)
	assert.Equal(t, 1, closed)
	assert.Equal(t, uint64(8), c.seed)
	assert.NotSame(t, first, c.test)

	broken = errors.New("cannot start")
	require.ErrorIs(t, c.reopen(t.Context()), broken)
	require.NoError(t, c.close())
	assert.Equal(t, 2, closed, "nothing is closed twice")
}

// TestPassesTakeTurnsWithTheTransports has three passes, and in the second a service that
// breaks.
func TestPassesTakeTurnsWithTheTransports(t *testing.T) {
	var started []string
	closed := 0
	c := &campaign{lock: trial.Ours, seed: 7, service: service{
		name: "empty", transports: []string{"post", "pigeon"},
		start: func(_ context.Context, transport string) (trial.Service, error) {
			started = append(started, transport)
			return emptyService{closed: &closed}, nil
		},
	}}
	require.NoError(t, c.open(t.Context()))
	assert.Equal(t, int64(1), c.test.First)
	require.NoError(t, c.next(t.Context()))
	assert.Equal(t, uint64(7), c.seed)
	require.NoError(t, c.reopen(t.Context()))
	assert.Equal(t, int64(2), c.test.First, "the rounds of a pass have its number")
	require.NoError(t, c.next(t.Context()))

	assert.Equal(t, int64(3), c.test.First)
	assert.Equal(t, []string{"post", "pigeon", "pigeon", "post"}, started)
	assert.Equal(t, 3, closed)

	c.transport = "pigeon"
	assert.Equal(t, []string{"pigeon"}, c.turns())
	c.lock, c.transport = "a peer's", ""
	assert.Equal(t, []string{"post"}, c.turns(), "the peers stay on the default")
}

func TestTransportsAreThoseOfTheService(t *testing.T) {
	c, err := parse([]string{"-on", onzk.Name, "-transport", onzk.TLS})
	require.NoError(t, err)
	assert.Equal(t, []string{onzk.TLS}, c.turns())
	c, err = parse([]string{"-on", onzk.Name})
	require.NoError(t, err)
	assert.Equal(t, onzk.Transports(), c.turns())
	_, err = parse([]string{"-on", onetcd.Name, "-transport", onzk.TLS})
	require.ErrorContains(t, err, "unknown transport")

	res := &trial.Result{Service: onzk.Name, Transport: onzk.TLS, Lock: trial.Ours, Kind: "holder-cut", Seed: 7, Round: 3}
	assert.Equal(t, "go -C robustness run . -on zookeeper -transport TLS -lock 'fairlock' -kinds holder-cut -seed 7 -round 3", repeat(res))
	res.Service, res.Transport = onetcd.Name, ""
	assert.Equal(t, "go -C robustness run . -on etcd -lock 'fairlock' -kinds holder-cut -seed 7 -round 3", repeat(res))
}

// TestFailedRunIsDescribed has a run whose service does not start.
func TestFailedRunIsDescribed(t *testing.T) {
	broken := errors.New("cannot start")
	c := &campaign{lock: trial.Ours, out: t.TempDir(), service: service{name: "empty", start: func(context.Context, string) (trial.Service, error) {
		return nil, broken
	}}}
	began := time.Now().Truncate(time.Second)

	require.ErrorIs(t, c.run(t.Context()), broken)

	text, err := os.ReadFile(filepath.Join(c.out, "empty-fairlock.about.json"))
	require.NoError(t, err)
	var about report.About
	require.NoError(t, json.Unmarshal(text, &about))
	assert.Equal(t, trial.Ours, about.Lock)
	assert.False(t, about.Began.Before(began.UTC()))
	assert.Positive(t, about.CPUs)
}
