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

// An operator ends the session of the program when it has written twice.
func TestEveryChangeIsMadeOnceThoughTheSessionIsLost(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	out := &progtest.Trigger{Text: "wrote 2, ", Then: func() { operator.EndSession(t, client) }}

	require.NoError(t, run(t.Context(), strings.Join(cluster.Endpoints(), ","), 3, out))

	t.Log("\n" + out.String())
	got, err := client.Get(t.Context(), key)
	require.NoError(t, err)
	assert.Equal(t, "6", string(got.Kvs[0].Value))
	assert.Contains(t, out.String(), "written true: ")
	reads := 0
	for line := range strings.Lines(out.String()) {
		var wrote, back, token int
		switch _, err := fmt.Sscanf(line, "wrote %d, read back %d, token %d", &wrote, &back, &token); {
		case err == nil:
			assert.Equal(t, wrote, back, "another writer got in between")
		case strings.HasPrefix(line, "read "):
			reads++
		}
	}
	assert.Positive(t, reads)
}

func TestRunsWithAServerOfItsOwn(t *testing.T) {
	var out bytes.Buffer

	require.NoError(t, run(t.Context(), "", 1, &out))

	assert.Contains(t, out.String(), "wrote 2, read back 2, ")
}
