package membackend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Cut drops everything that is sent in a direction, as a partition does, without an
// error to either side. What is dropped stays lost after Heal. Calls wait until their
// context ends. With the replies cut, events are lost too, and watches report Lost after
// Heal. Cuts add up.
func (c *Client) Cut(d fault.Direction) {
	c.set(func() {
		c.cut |= d
		if d&fault.Replies != 0 {
			c.events = nil
		}
	})
}

// Heal ends all cuts and delays. Watches whose events may have been lost report Lost,
// and are made anew.
func (c *Client) Heal() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	var was fault.Direction
	c.set(func() { was, c.cut, c.toService, c.fromThere = c.cut, 0, 0, 0 })
	if was&fault.Replies == 0 {
		return
	}
	for _, s := range c.sessions {
		// In an order that is the same in every replay.
		slices.SortStableFunc(s.watches, func(a, b *watch) int { return cmp.Compare(fmt.Sprint(a.target), fmt.Sprint(b.target)) })
		for _, w := range s.watches {
			w.disarm()
			w.report(driver.Event{Kind: driver.Lost})
			go w.request() // as in Watch
		}
	}
}

// Stall stops the process, as SIGSTOP or a long garbage collection does: it sends
// nothing, receives nothing, and its timers do not fire. The service's clock goes on.
// Calls still return when their context ends.
func (c *Client) Stall() { c.set(func() { c.stalled = true }) }

// Resume lets a stalled process continue. What it has missed happens now, in no
// promised order, except that events keep theirs.
func (c *Client) Resume() {
	var held []func()
	c.set(func() { held, c.held, c.stalled = c.held, nil, false })
	for _, f := range held {
		f()
	}
	network{c}.tell()
}

// Delay delays every answer and every event by d, from now on until Heal.
func (c *Client) Delay(d time.Duration) { c.set(func() { c.fromThere = d }) }

// DelayRequests delays every request to the service by d, from now on until Heal.
func (c *Client) DelayRequests(d time.Duration) { c.set(func() { c.toService = d }) }

// Inject makes a fault hit the next request of a kind, once. Each further call hits one
// request more.
func (c *Client) Inject(op fault.Op, k fault.Kind) { c.plan.Inject(op, k) }

// Deliver lets the requests that fault.LateRequest has held back arrive at the service.
// They arrive even after Heal or after the end of their session.
func (c *Client) Deliver() {
	var late []func()
	c.set(func() { late, c.late = c.late, nil })
	for _, arrive := range late {
		arrive()
	}
}

// OnSend calls f before each request is sent, in the goroutine that sends it, until the
// next call of OnSend or OnRequest; nil ends the calls. f may inject faults, which hit
// this very request, and act on the Store. It must not block.
func (c *Client) OnSend(f func(op fault.Op)) { c.set(func() { c.onSend = f }) }

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
	return c.count(func(o fault.Op) bool { return o == op })
}

// Requests returns how many requests the client has sent, without those that belong to
// no call: renewals, and those of watches.
func (c *Client) Requests() int { return c.count(ofCall) }

func (c *Client) count(counts func(fault.Op) bool) (n int) {
	c.set(func() {
		for op, sent := range c.sent {
			if counts(op) {
				n += sent
			}
		}
	})
	return n
}

// set calls f with the mutex of the network.
func (c *Client) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// ofCall reports whether requests of a kind belong to a call.
func ofCall(op fault.Op) bool { return op != fault.Renew && op != fault.Watch }
