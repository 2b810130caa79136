package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/etcdtest/operator"
	"github.com/fairlock/fairlock/internal/progtest"
)

// turns returns which workers used each GPU, in order, and how many are done.
func turns(t *testing.T, out string) (on [gpus][]int, done int) {
	t.Helper()
	for line := range strings.Lines(out) {
		var id, step, all, gpu, token int
		if _, err := fmt.Sscanf(line, "worker %d: %d/%d on gpu %d, token %d", &id, &step, &all, &gpu, &token); err == nil {
			on[gpu] = append(on[gpu], id)
		}
		if strings.HasSuffix(line, " done\n") {
			done++
		}
	}
	return on, done
}

func TestAllJobsAreDoneThreeAtATime(t *testing.T) {
	var out bytes.Buffer

	require.NoError(t, run(t.Context(), "", &display{out: &out}))

	t.Log("\n" + out.String())
	on, done := turns(t, out.String())
	assert.Equal(t, workers, done)
	for gpu, ids := range on {
		assert.NotEmpty(t, ids, "gpu %d", gpu)
	}
	assert.Len(t, append(append(on[0], on[1]...), on[2]...), workers, "each had one turn")
}

// An operator ends the session of the program while three work.
func TestLostPermitsAreQueuedForAnew(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	out := &progtest.Trigger{Text: "on gpu 2", Then: func() { operator.EndSession(t, client) }}

	require.NoError(t, run(t.Context(), strings.Join(cluster.Endpoints(), ","), &display{out: out}))

	t.Log("\n" + out.String())
	_, done := turns(t, out.String())
	assert.Equal(t, workers, done)
	assert.Contains(t, out.String(), "lost its permit")
}

func TestOnATerminalLinesAreDrawnOverThemselves(t *testing.T) {
	var out bytes.Buffer
	d := &display{out: &out, inPlace: true}

	d.set(0, 0, "waits")
	d.set(1, 4, "on gpu 1")

	frames := strings.Split(out.String(), fmt.Sprintf("\x1b[%dA", workers))
	require.Len(t, frames, 2)
	for _, frame := range frames {
		assert.Equal(t, workers, strings.Count(frame, "\n"))
	}
	assert.Contains(t, frames[1], "worker  1 ████░░░░░░ on gpu 1\n")
}
