package membackend

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// MinTTL is the minimum TTL of a session.
	MinTTL = 10 * time.Millisecond

	// minMargin is the least default margin; above ten times that, it is a
	// tenth of the TTL.
	minMargin = time.Millisecond

	// maxJoin is the most entries of one Join, and maxData the most bytes of its data:
	// low enough for tests to exceed. maxDetail is the contract's.
	maxJoin   = 32
	maxData   = 1 << 20
	maxDetail = 2 << 10
)

const (
	// timeout is how long a request waits for its answer, at most, before it is sent
	// again: less than the second that Unlock takes at most, so that Unlock gets the
	// outcome.
	timeout = 800 * time.Millisecond

	// backoff is the time from a broken connection to the next attempt, and minPeriod the
	// least time between renewals.
	backoff   = 5 * time.Millisecond
	minPeriod = time.Millisecond
)

// Client is a client of a Store, with a network of its own, on which faults can be set.
// It is safe for concurrent use.
//
// It stands for a process: Stall stops the timers, the messages and the events of all its
// sessions, and every fault of the network concerns all of them.
type Client struct {
	st *Store

	// wire takes all messages, events and timers. It is a network around this Client, or that
	// of a simulation, and never changes.
	wire memory.Wire

	// plan has the faults of single requests. Each is taken out when a request leaves the
	// process, also if a cut then loses that request.
	plan fault.Plan

	// sessions are those that were opened and not ended in this process. Guarded by the Store's
	// mutex.
	sessions []*memSession

	// mu guards what follows: the state of the network. It may be taken under the
	// Store's mutex, and is not held while anything of the Store is called.
	mu sync.Mutex

	// cut has the directions in which everything is dropped, and stalled is set between Stall
	// and Resume. Something that is delayed meets the faults of the moment of its arrival too.
	cut     fault.Direction
	stalled bool

	// late are the requests that wait for Deliver, which no cut drops any more.
	late []func()

	// held are the calls that wait for Resume. Empty unless the process is stalled.
	held []func()

	// events are on their way, in the order in which they are due. Those of one lane keep the
	// order in which they were sent. A cut of the replies empties it.
	events []event

	// random draws the delays of events for a kind of service with Disorder, from its seed.
	random *rand.Rand

	// toService delays requests, and fromThere answers and events; 0: they arrive in the
	// goroutine that sends them.
	toService time.Duration
	fromThere time.Duration

	// sent counts requests that have left the process, whatever became of them. It only rises.
	sent map[fault.Op]int

	// onSend is called before each request; nil: nothing is.
	onSend func(fault.Op)
}

// Open opens a session through this client. Several may be open at once; they
// share its network. A nil o means the defaults of [session.Options].
func (c *Client) Open(ctx context.Context, o *session.Options) (*session.Session, error) {
	return session.Engine(door.Key{}).Open(ctx, c.Backend(), o)
}

// Backend returns the client as a backend, for session.Open and for tests of
// the driver's contract. Its Close frees nothing.
func (c *Client) Backend() driver.Backend { return backend{c} }

// backend is a Client seen through the contract. It is a type of its own
// because a Client's Open opens a session.Session.
type backend struct{ c *Client }

// Info implements driver.Backend.
func (b backend) Info() driver.Info {
	return driver.Info{
		Service: "memory",
		Clock:   b.c.wire,
		MinTTL:  MinTTL,
		MaxTTL:  b.c.st.o.MaxTTL,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, minMargin) },
		MaxJoin: maxJoin,
		MaxData: maxData,
		Keeps:   driver.Keeps{Exclusion: driver.Always, Order: driver.Always, Tokens: driver.Always},
	}
}

// CheckName accepts every name.
func (b backend) CheckName(string) error { return nil }

// Close frees nothing.
func (b backend) Close() error { return nil }

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
//
// All watches count as such if the replies were cut, because the client cannot know of which
// an event was dropped. Requests that were dropped need nothing: a call sends another copy after
// its timeout, and a renewal has its next turn.
func (c *Client) Heal() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	var was fault.Direction
	c.set(func() { was, c.cut, c.toService, c.fromThere = c.cut, 0, 0, 0 })
	c.back()
	if was&fault.Replies == 0 {
		return
	}
	for _, s := range c.sessions {
		// The same order in every replay.
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
//
// Renewals whose turn was missed are among it, so a session that the service has expired
// meanwhile learns that at once. Its deadline has passed by the clock, which went on.
func (c *Client) Resume() {
	var held []func()
	c.set(func() { held, c.held, c.stalled = c.held, nil, false })
	c.st.mu.Lock()
	c.back()
	c.st.mu.Unlock()
	for _, f := range held { // without the mutex: they send, and act at the Store
		f()
	}
	network{c}.deliverDue() // the events have stayed in their list meanwhile
}

// connected reports whether what happens at the service reaches the client.
func (c *Client) connected() (yes bool) {
	c.set(func() { yes = c.cut == 0 && !c.stalled })
	return yes
}

// back is called when the client is connected again. The Store's mutex is held.
func (c *Client) back() {
	for _, s := range c.sessions {
		for _, w := range s.watches {
			w.since = c.st.sched.Now()
		}
	}
	c.st.observe()
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
	c.OnSend(func(op fault.Op) {
		if f != nil && ofCall(op) {
			f()
		}
	})
}

// Sent returns how many requests of a kind the client has sent, including repeated and
// lost ones.
func (c *Client) Sent(op fault.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[op]
}

// Requests returns how many requests the client has sent, without those that belong to
// no call: renewals, and those of watches.
func (c *Client) Requests() int {
	n := 0
	c.set(func() {
		for op, sent := range c.sent {
			if ofCall(op) {
				n += sent
			}
		}
	})
	return n
}

// ofCall reports whether requests of a kind belong to a call.
func ofCall(op fault.Op) bool { return op != fault.Renew && op != fault.Watch }
