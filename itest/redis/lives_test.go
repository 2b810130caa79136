package redis

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// longest is the greatest TTL where a case waits for it.
const longest = 4 * time.Second

// The ways in which Redis begins a new life. In all of them the clients find the data at the same
// address, or by the same Sentinels.
const (
	emptied   = "EmptyRestart" // the server has kept nothing
	restarted = "Restart"      // it has kept everything
	flushed   = "Flush"        // its data was deleted
)

// mortal is a server of one case that can begin a new life.
type mortal struct {
	*service
	server *redistest.Server
}

// NewLife implements drivertest.Lives.
func (m mortal) NewLife(t *testing.T, way string) {
	switch way {
	case flushed:
		require.NoError(t, m.server.Do(hang.Context(t), "FLUSHALL").Error())
		return
	case emptied:
		m.server.Kill()
		require.NoError(t, m.server.Wipe())
	case restarted:
		require.NoError(t, m.server.Stop(hang.Context(t)))
	}
	require.NoError(t, m.server.Restart(hang.Context(t)))
}

// overLives is a harness whose cases have a server each, with a greatest TTL for which they can wait.
func overLives(t *testing.T) drivertest.Harness {
	t.Helper()
	h := oneServer(t, nil).harness(t)
	h.Lives, h.TTL, h.Calm = []string{emptied, restarted, flushed}, longest, 0
	var cases atomic.Int64
	h.Service = func(t *testing.T) drivertest.Service {
		server := redistest.New(t, &redistest.Options{Persistence: redistest.Log})
		s := setup{
			option: oneOption(server), servers: []string{server.Addr()}, nodes: 1, publish: "PUBLISH",
			master: func() *redistest.Server { return server },
		}
		return mortal{newService(t, s, fmt.Sprint("case", cases.Add(1)), longest), server}
	}
	return h
}

func TestDriverOverLives(t *testing.T) {
	h := overLives(t)
	h.Topics = []string{"life"}
	drivertest.Run(t, h)
}
