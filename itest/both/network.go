package both

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// Nobody returns an address at which no server listens.
func Nobody(t testing.TB) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// Network is one client's way to all servers, and can be harmed as
// drivertest.Client has it.
type Network []*tcpproxy.Proxy

// Cut is a drivertest.Client's.
func (n Network) Cut(d fault.Direction) {
	for _, p := range n {
		p.Hold(d)
	}
}

// Heal is a drivertest.Client's.
func (n Network) Heal() {
	for _, p := range n {
		p.Delay(fault.Both, 0)
		p.Heal(fault.Both)
	}
}

// Delay is a drivertest.Client's.
func (n Network) Delay(d time.Duration) {
	for _, p := range n {
		p.Delay(fault.Replies, d)
	}
}
