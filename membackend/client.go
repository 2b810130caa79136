package membackend

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// Limits of the service.
const (
	// MinTTL is the minimum TTL of a session.
	MinTTL = 10 * time.Millisecond

	// minMargin is the least default margin; above ten times that, it is a
	// tenth of the TTL.
	minMargin = time.Millisecond

	// maxJoin is the most entries of one Join, and maxData the most bytes of its data:
	// few enough for a test to go beyond. maxDetail is the contract's.
	maxJoin   = 32
	maxData   = 1 << 20
	maxDetail = 2 << 10
)

// patience is how long an answer is waited for at most before the request is sent again:
// less than an Unlock waits in all, so that it learns the outcome. pause is how long
// after a broken connection, and shortest the least time between renewals.
const (
	patience = 800 * time.Millisecond
	pause    = 5 * time.Millisecond
	shortest = time.Millisecond
)

// Client is a client of a Store, with a network of its own, on which faults can be set.
// It is safe for concurrent use.
type Client struct {
	st   *Store
	wire memory.Wire // takes all messages, events and timers
	plan fault.Plan

	sessions []*memSession // guarded by the Store's mutex

	// mu guards what follows: the state of the network. It may be taken under the
	// Store's mutex, and is not held while anything of the Store is called.
	mu        sync.Mutex
	cut       fault.Direction
	stalled   bool
	late      []func() // what waits for Deliver
	held      []func() // what waits for Resume
	events    []event  // on their way, in the order in which they are due
	random    *rand.Rand
	toService time.Duration
	fromThere time.Duration
	sent      map[fault.Op]int
	onSend    func(fault.Op)
}

// NewClient returns a client with a healthy network.
func (st *Store) NewClient() *Client {
	c := &Client{st: st, sent: make(map[fault.Op]int), random: rand.New(rand.NewPCG(st.o.Disorder, 0))}
	if c.wire = st.sched.Wire(); c.wire == nil {
		c.wire = network{c}
	}
	return c
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
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, minMargin) },
		MaxJoin: maxJoin,
		MaxData: maxData,
	}
}

// CheckName accepts every name.
func (b backend) CheckName(string) error { return nil }

// Close frees nothing.
func (b backend) Close() error { return nil }
