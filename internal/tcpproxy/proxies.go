// Package tcpproxy breaks all connections of one client to several servers at
// once.
package tcpproxy

import (
	"errors"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// Proxies are the proxies between one client and several servers.
type Proxies []*testnet.Proxy

// Cut holds back the bytes of a direction on all proxies.
func (ps Proxies) Cut(d fault.Direction) {
	for _, p := range ps {
		p.Hold(d)
	}
}

// Heal ends Cut and Delay. What was held back passes at once.
func (ps Proxies) Heal() {
	for _, p := range ps {
		p.Delay(fault.Both, 0) // first, so that nothing that passes is late
		p.Heal(fault.Both)
	}
}

// Delay delays replies on all proxies.
func (ps Proxies) Delay(d time.Duration) {
	for _, p := range ps {
		p.Delay(fault.Replies, d)
	}
}

// Reset resets all connections.
func (ps Proxies) Reset() {
	for _, p := range ps {
		p.Reset()
	}
}

// Traffic counts what the proxies have seen. Tests use it to check that a fault
// had an effect.
type Traffic struct {
	Waiting     int64 // bytes inside the proxies now: held back, or not yet due
	Connections int64 // that were ever accepted
	Requests    int64 // pieces that the client has sent and that were handed on, see testnet.Flow
}

// Traffic returns the sum over all proxies.
func (ps Proxies) Traffic() (t Traffic) {
	for _, p := range ps {
		st := p.Stats()
		t.Waiting += st.Requests.Waiting + st.Replies.Waiting
		t.Connections += st.Accepted - st.Refused
		t.Requests += st.Requests.Pieces
	}
	return t
}

// Close ends the proxies, and all connections through them.
func (ps Proxies) Close() error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
