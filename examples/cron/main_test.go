package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seconds returns the tick of each run, in order.
func seconds(out string) (all []string) {
	for line := range strings.Lines(out) {
		tick, _, _ := strings.Cut(line, ": replica")
		all = append(all, tick)
	}
	return all
}

func TestTheJobRunsOnceForEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // virtual time begins at 00:00:00
		var out bytes.Buffer

		require.NoError(t, run(t.Context(), 4, &report{out: &out}))

		t.Log("\n" + out.String())
		assert.Equal(t, []string{"00:00:01", "00:00:02", "00:00:03", "00:00:04"}, seconds(out.String()))
	})
}

// broken fails at the first writes.
type broken struct {
	io.Writer
	times int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.times--; b.times >= 0 {
		return 0, errors.New("broken")
	}
	return b.Writer.Write(p)
}

func TestTheNextReplicaRunsWhatHasFailed(t *testing.T) {
	log.SetOutput(t.Output())
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer

		require.NoError(t, run(t.Context(), 2, &report{out: &broken{&out, 2}}))

		assert.Equal(t, []string{"00:00:01", "00:00:02"}, seconds(out.String()))
		assert.Contains(t, out.String(), "00:00:01: replica 0", "whose clock is the last")
	})
}
