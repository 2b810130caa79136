package postgres

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// cancelRequest is the code of a connection that cancels what another one is doing.
const cancelRequest = 80877102

// TestNoRequestIsCancelled cuts a client off in the middle of its requests, so that it gives up
// several connections. PgBouncer 1.18 crashes on some requests to cancel, and a server with many
// clients that are cut off gets twice as many connections.
func TestNoRequestIsCancelled(t *testing.T) {
	s := newSetup(t, nil)
	var cancels, opened atomic.Int64
	p, err := testnet.New(s.server.Addr(), &testnet.Options{Label: func(head []byte) (string, bool) {
		if len(head) < 8 {
			return "", false
		}
		if binary.BigEndian.Uint32(head[4:8]) == cancelRequest {
			cancels.Add(1)
		} else {
			opened.Add(1)
		}
		return "", true
	}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Close()) }()
	client, err := pgbackend.Dial(t.Context(), "postgres://postgres@"+p.Addr()+"/postgres?sslmode=disable", &pgbackend.Options{Session: session.Options{TTL: 2 * time.Second}})
	require.NoError(t, err)
	defer func() { _ = client.Close() }() // its session may be over
	hold, err := mutex.New(client, "cancel").Lock(t.Context())
	require.NoError(t, err)
	before := opened.Load()

	p.Hold(fault.Replies)
	<-hold.Context().Done()
	hang.Until(t, func() bool { return p.Stats().Accepted > before+1 }, "the client gives connections up")
	p.Heal(fault.Both)
	again, err := mutex.New(client, "other").Lock(t.Context())

	require.NoError(t, err)
	require.NoError(t, again.Unlock())
	assert.Zero(t, cancels.Load(), fmt.Sprint("of ", opened.Load(), " connections"))
}
