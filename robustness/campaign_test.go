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
	c := &campaign{lock: trial.Ours, seed: 7, service: service{name: "empty", start: func(context.Context) (trial.Service, error) {
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

// TestFailedRunIsDescribed has a run whose service does not start.
func TestFailedRunIsDescribed(t *testing.T) {
	broken := errors.New("cannot start")
	c := &campaign{lock: trial.Ours, out: t.TempDir(), service: service{name: "empty", start: func(context.Context) (trial.Service, error) {
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
