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
	leaders, tokens, run := map[string]bool{}, 0, 0
	for line := range strings.Lines(out.String()) {
		var n, token int
		var name string
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", ""), "run %d by %s token %d", &n, &name, &token); err != nil {
			continue
		}
		run++
		assert.Equal(t, run, n, "each run comes once, and in order")
		assert.GreaterOrEqual(t, token, tokens)
		leaders[name], tokens = true, token
	}
	assert.Equal(t, 4, run)
	assert.GreaterOrEqual(t, len(leaders), 2, "one was killed, and another went on")
	assert.Contains(t, out.String(), "signal: killed")
}
