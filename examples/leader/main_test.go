package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The processes that demo starts are this test's own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-node" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestJobRunsOnceInAllThoughALeaderDies(t *testing.T) {
	var out strings.Builder

	require.NoError(t, demo(t.Context(), os.Getenv("FAIRLOCK_ETCD"), 4, &out))

	t.Log("\n" + out.String())
	leaders, tokens, last := map[string]bool{}, 0, 0
	for line := range strings.Lines(out.String()) {
		var n, token int
		var name string
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", ""), "run %d by %s token %d", &n, &name, &token); err != nil {
			continue
		}
		// A leader that is lost while it counts a run does not print it.
		assert.Greater(t, n, last, "each run comes once, and in order")
		assert.GreaterOrEqual(t, token, tokens)
		leaders[name], tokens, last = true, token, n
	}
	assert.Equal(t, 4, last)
	assert.GreaterOrEqual(t, len(leaders), 2, "one was killed, and another went on")
	assert.Contains(t, out.String(), "signal: killed")
}
