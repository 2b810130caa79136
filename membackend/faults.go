package membackend

import (
	"time"

	"github.com/fairlock/fairlock/fault"
)

// Cut makes the network swallow everything that is sent in a direction, as a
// partition does: nobody is told, and what is swallowed stays lost after Heal.
// Calls go on sending until their context ends. With the replies cut, events
// are lost too, and watches say so after Heal. Cuts add up.
func (c *Client) Cut(d fault.Direction) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.cut |= d
	if d&fault.Replies != 0 {
		for _, s := range c.sessions {
			s.disconnect()
		}
	}
}

// Heal ends all cuts and delays. Watches whose events may have been lost tell Broken, and
// are made anew.
func (c *Client) Heal() {
	c.st.mu.Lock()
	was := c.cut
	c.cut, c.toService, c.fromThere = 0, 0, 0
	var lost []*watch
	if was&fault.Replies != 0 {
		for _, s := range c.sessions {
			lost = append(lost, s.reconnect()...)
		}
	}
	c.st.mu.Unlock()
	for _, w := range lost {
		w.request()
	}
}

// Stall stops the process, as SIGSTOP or a long garbage collection would: it
// sends nothing, gets nothing, and its timers do nothing. The service's clock
// goes on. Calls still return when their context ends.
func (c *Client) Stall() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.stalled = true
}

// Resume lets a stalled process go on. What was kept from it happens now, in
// no promised order, except that events keep theirs.
func (c *Client) Resume() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.stalled = false
	held := c.held
	c.held = nil
	for _, f := range held {
		f()
	}
	for _, s := range c.sessions {
		s.rouse()
	}
}

// Delay makes every answer and every event take d longer, from now on until Heal.
func (c *Client) Delay(d time.Duration) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.fromThere = d
}

// DelayRequests makes every request take d longer to the service, from now on
// until Heal.
func (c *Client) DelayRequests(d time.Duration) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.toService = d
}

// Inject lets a fault hit the next request of a kind, once. Called several times
// it is for one request more each time.
func (c *Client) Inject(op fault.Op, k fault.Kind) { c.plan.Inject(op, k) }

// Deliver lets the requests that [fault.LateRequest] has held back arrive at the
// service. Neither Heal nor a closed session calls them back.
func (c *Client) Deliver() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	late := c.late
	c.late = nil
	for _, arrive := range late {
		arrive()
	}
}

// OnSend calls f before each request is sent, in the goroutine that sends it,
// until OnSend or OnRequest is called again; nil calls nobody. f may inject
// faults, which hit this very request, and act on the Store. It must not block.
func (c *Client) OnSend(f func(op fault.Op)) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.onSend = f
}

// OnRequest is OnSend without the requests that belong to no call: renewals, and
// those of watches.
func (c *Client) OnRequest(f func()) {
	if f == nil {
		c.OnSend(nil)
		return
	}
	c.OnSend(func(op fault.Op) {
		if ofCall(op) {
			f()
		}
	})
}

// Sent is how many requests of a kind the client has sent, repeated ones and
// lost ones included.
func (c *Client) Sent(op fault.Op) int {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	return c.sent[op]
}

// Requests is how many requests the client has sent, without those that belong
// to no call: renewals, and those of watches.
func (c *Client) Requests() int {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	n := 0
	for op, sent := range c.sent {
		if ofCall(op) {
			n += sent
		}
	}
	return n
}

// ofCall reports whether requests of a kind belong to a call.
func ofCall(op fault.Op) bool { return op != fault.Renew && op != fault.Watch && op != fault.Tell }
