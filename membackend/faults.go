package membackend

import (
	"time"

	"github.com/fairlock/fairlock/fault"
)

// Cut drops everything that is sent in a direction, as a partition does, without an
// error to either side. What is dropped stays lost after Heal. Calls wait until their
// context ends. With the replies cut, events are lost too, and watches report Broken
// after Heal. Cuts add up.
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

// Heal ends all cuts and delays. Watches whose events may have been lost report Broken,
// and are made anew.
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

// Stall stops the process, as SIGSTOP or a long garbage collection does: it sends
// nothing, receives nothing, and its timers do not fire. The service's clock goes on.
// Calls still return when their context ends.
func (c *Client) Stall() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.stalled = true
}

// Resume lets a stalled process continue. What it has missed happens now, in no
// promised order, except that events keep theirs.
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

// Delay delays every answer and every event by d, from now on until Heal.
func (c *Client) Delay(d time.Duration) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.fromThere = d
}

// DelayRequests delays every request to the service by d, from now on until Heal.
func (c *Client) DelayRequests(d time.Duration) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.toService = d
}

// Inject makes a fault hit the next request of a kind, once. Each further call hits one
// request more.
func (c *Client) Inject(op fault.Op, k fault.Kind) { c.plan.Inject(op, k) }

// Deliver lets the requests that fault.LateRequest has held back arrive at the service.
// They arrive even after Heal or after the end of their session.
func (c *Client) Deliver() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	late := c.late
	c.late = nil
	for _, arrive := range late {
		arrive()
	}
}

// OnSend calls f before each request is sent, in the goroutine that sends it, until the
// next call of OnSend or OnRequest; nil ends the calls. f may inject faults, which hit
// this very request, and act on the Store. It must not block.
func (c *Client) OnSend(f func(op fault.Op)) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.onSend = f
}

// OnRequest is OnSend without the requests that belong to no call: renewals, and those
// of watches.
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

// Sent returns how many requests of a kind the client has sent, including repeated and
// lost ones.
func (c *Client) Sent(op fault.Op) int {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	return c.sent[op]
}

// Requests returns how many requests the client has sent, without those that belong to
// no call: renewals, and those of watches.
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
