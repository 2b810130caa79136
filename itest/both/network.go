package both

import (
	"time"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/session/drivertest"
)

// Network is one client's way to all servers, and can be harmed as
// [drivertest.Client] has it.
type Network []*tcpproxy.Proxy

// Cut is a drivertest.Client's.
func (n Network) Cut(d drivertest.Direction) {
	dir := map[drivertest.Direction]tcpproxy.Direction{
		drivertest.Both: tcpproxy.Both, drivertest.Requests: tcpproxy.Up, drivertest.Replies: tcpproxy.Down,
	}[d]
	for _, p := range n {
		p.Hold(dir)
	}
}

// Heal is a drivertest.Client's.
func (n Network) Heal() {
	for _, p := range n {
		p.Delay(tcpproxy.Both, 0)
		p.Heal(tcpproxy.Both)
	}
}

// Delay is a drivertest.Client's.
func (n Network) Delay(d time.Duration) {
	for _, p := range n {
		p.Delay(tcpproxy.Down, d)
	}
}
