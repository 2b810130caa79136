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

// hollow is a service on which nothing can be played.
type hollow struct {
	trial.Service
	closed *int
}

func (hollow) Locks() []string { return []string{trial.Ours} }

func (hollow) Client(context.Context, string, ...int) (trial.Client, error) {
	return hollowClient{}, nil
}

func (h hollow) Close() error {
	*h.closed++
	return nil
}

type hollowClient struct{ trial.Client }

func (hollowClient) Kinds() []string { return nil }
func (hollowClient) Close() error    { return nil }

// TestAServiceIsStartedAnewWithOtherScripts replaces one that has served for long,
// and then one whose successor does not come up.
func TestAServiceIsStartedAnewWithOtherScripts(t *testing.T) {
	closed, started, broken := 0, 0, error(nil)
	c := &campaign{lock: trial.Ours, seed: 7, service: service{name: "hollow", start: func(context.Context) (trial.Service, error) {
		started++
		return hollow{closed: &closed}, broken
	}}}
	require.NoError(t, c.open(t.Context()))
	first := c.test

	require.NoError(t, c.start(t.Context()))
	assert.Equal(t, 2, started)
	assert.Equal(t, 1, closed)
	assert.Equal(t, uint64(8), c.seed)
	assert.NotSame(t, first, c.test)

	broken = errors.New("no room")
	require.ErrorIs(t, c.start(t.Context()), broken)
	require.NoError(t, c.close())
	assert.Equal(t, 2, closed, "nothing is closed twice")
}

// TestARunNotesWhatItWas ends before it has begun to play.
func TestARunNotesWhatItWas(t *testing.T) {
	broken := errors.New("no room")
	c := &campaign{lock: trial.Ours, out: t.TempDir(), service: service{name: "hollow", start: func(context.Context) (trial.Service, error) {
		return nil, broken
	}}}
	began := time.Now().Truncate(time.Second)

	require.ErrorIs(t, c.run(t.Context()), broken)

	text, err := os.ReadFile(filepath.Join(c.out, "hollow-fairlock.about.json"))
	require.NoError(t, err)
	var about report.About
	require.NoError(t, json.Unmarshal(text, &about))
	assert.Equal(t, trial.Ours, about.Lock)
	assert.False(t, about.Began.Before(began.UTC()))
	assert.Positive(t, about.CPUs)
}
