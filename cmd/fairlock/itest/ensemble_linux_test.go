package itest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/zktest"
)

// In an ensemble whose tick is the default, 2 s, the first renewal comes 7.5 s after the
// opening, and then one every 2.5 s. The commands run for three of them.
func TestAHealthyEnsembleStopsNoCommand(t *testing.T) {
	t.Parallel()
	const tick = 2 * time.Second
	url := "zk://" + strings.Join(zktest.New(t, &zktest.Options{Members: 3, Tick: tick}).Endpoints(), ",")
	run := func(args ...string) *running {
		return begin(t, url, append(append([]string{"run"}, args...), "--", "sleep", "14")...)
	}

	short, usual := run("--ttl", "12s", "short"), run("usual")

	assert.Equal(t, 0, short.code(t), &short.err)
	assert.Equal(t, 0, usual.code(t), &usual.err)
	assert.Empty(t, usual.err.String(), "every renewal was in time")
	got := execute(t, url, "run", "--grace", "3s", "usual", "--", "true")
	assert.Equal(t, result{code: 64, stderr: "fairlock: --grace 3s is too long for a session of 15s, which needs time to be renewed: want at most 2.9s, or a longer --ttl\nRun 'fairlock run --help' for usage.\n"}, got)
}
