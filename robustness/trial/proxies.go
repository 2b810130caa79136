package trial

import (
	"errors"
	"time"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// Proxies are what a Client talks to members through, and the part of a Client that
// does not depend on the service.
type Proxies []*tcpproxy.Proxy

// Cut implements Client.
func (ps Proxies) Cut(d fault.Direction) {
	for _, p := range ps {
		p.Hold(d)
	}
}

// Heal implements Client.
func (ps Proxies) Heal() {
	for _, p := range ps {
		p.Heal(fault.Both)
		p.Delay(fault.Both, 0)
	}
}

// Delay implements Client.
func (ps Proxies) Delay(d time.Duration) {
	for _, p := range ps {
		p.Delay(fault.Replies, d)
	}
}

// Reset implements Client.
func (ps Proxies) Reset() {
	for _, p := range ps {
		p.Reset()
	}
}

// Traffic implements Client.
func (ps Proxies) Traffic() (t Traffic) {
	for _, p := range ps {
		st := p.Stats()
		t.Waiting += st.Requests.Waiting + st.Replies.Waiting
		t.Connections += st.Accepted - st.Refused
	}
	return t
}

// Close ends the proxies, and with them all connections through them.
func (ps Proxies) Close() error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
