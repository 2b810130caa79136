package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
)

// watched is an output that calls f when the text was written for the first time.
type watched struct {
	bytes.Buffer
	text string
	once sync.Once
	f    func()
}

func (w *watched) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.text) {
		defer w.once.Do(w.f)
	}
	return w.Buffer.Write(b)
}

// The session of the program is ended by an operator when it has written twice.
func TestEveryChangeIsMadeOnceThoughTheSessionIsLost(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	out := &watched{text: "wrote 2, ", f: func() {
		leases, err := client.Leases(t.Context())
		if assert.NoError(t, err) && assert.Len(t, leases.Leases, 1) {
			_, err = client.Revoke(t.Context(), leases.Leases[0].ID)
			assert.NoError(t, err)
		}
	}}

	require.NoError(t, run(t.Context(), strings.Join(cluster.Endpoints(), ","), 3, out))

	t.Log("\n" + out.String())
	got, err := client.Get(t.Context(), key)
	require.NoError(t, err)
	assert.Equal(t, "6", string(got.Kvs[0].Value))
	// "written true: " stands there too, unless the loss is noticed in the very
	// moment of the Unlock: then the entry has gone either way, and nobody is told.
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
