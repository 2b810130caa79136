package membackend

import (
	"context"
	"fmt"
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

	// maxAll is the most entries of one JoinAll, and maxValue the most bytes of
	// a value: few enough for a test to go beyond.
	maxAll   = 32
	maxValue = 1 << 20
)

// patience is how long a request outside of a session is waited for before it
// is sent again: less than an Unlock waits in all, so that it learns the outcome.
// pause is how long after a broken connection.
const (
	patience = 800 * time.Millisecond
	pause    = 5 * time.Millisecond
)

// Client is a client of a Store, with a network of its own, on which faults can be set.
// It is safe for concurrent use.
type Client struct {
	st   *Store
	wire memory.Wire // takes all messages and timers; nil: there is none
	plan fault.Plan

	// Guarded by st.mu.
	cut       fault.Direction
	stalled   bool
	late      []func() // what waits for Deliver; run with the mutex
	held      []func() // what waits for Resume; run with the mutex
	toService time.Duration
	fromThere time.Duration
	sent      map[fault.Op]int
	onSend    func(fault.Op)
	sessions  []*memSession
}

// NewClient returns a client with a healthy network.
func (st *Store) NewClient() *Client {
	c := &Client{st: st, sent: make(map[fault.Op]int)}
	if st.sched != nil {
		c.wire = st.sched.Wire()
	}
	return c
}

// Backend returns the client as a backend, for session.Open and for tests of
// the driver's contract. Its Close frees nothing.
func (c *Client) Backend() driver.Backend { return backend{c} }

// backend is a Client seen through the contract. It is a type of its own
// because a Client's Open opens a session.Session.
type backend struct{ c *Client }

func (b backend) Profile() driver.Profile {
	return driver.Profile{
		Service: "memory",
		MinTTL:  MinTTL,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, minMargin) },
		Ordered: true,
		Tells:   b.c.st.o.Tells,
		Moves:   b.c.st.o.Moves,
		Ends:    b.c.st.o.Ends,

		MaxAll:   maxAll,
		MaxValue: maxValue,
	}
}

func (b backend) Clock() driver.Clock { return clock(b) }

// CheckName accepts every name.
func (b backend) CheckName(string) error { return nil }

func (b backend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	all, _, err := roundTrip(ctx, b.c, request{op: fault.List, of: name, patience: patience},
		func(driver.Instant) []driver.Entry { return b.c.st.read(name) })
	if err != nil {
		return nil, fmt.Errorf("memory: list %q: %w", name, err)
	}
	if most > 0 && len(all) > most {
		all = all[:most]
	}
	return all, nil
}

func (b backend) Names(ctx context.Context, prefix string) ([]string, error) {
	all, _, err := roundTrip(ctx, b.c, request{op: fault.List, of: prefix, patience: patience},
		func(driver.Instant) []string { return b.c.st.names(prefix) })
	if err != nil {
		return nil, fmt.Errorf("memory: names %q: %w", prefix, err)
	}
	return all, nil
}

func (b backend) Limit(ctx context.Context, name string) (int64, error) {
	limit, _, err := roundTrip(ctx, b.c, request{op: fault.List, of: name, patience: patience},
		func(driver.Instant) int64 { return b.c.st.beside[name].limit })
	if err != nil {
		return 0, fmt.Errorf("memory: limit of %q: %w", name, err)
	}
	return limit, nil
}

// Evict sends copies of one request until one is answered. The service acts on
// the first and repeats its answer to the rest.
func (b backend) Evict(ctx context.Context, e driver.Entry) error {
	st, done, gone := b.c.st, false, false // guarded by the Store's mutex
	was, _, err := roundTrip(ctx, b.c, request{op: fault.Leave, of: nameOf(e.Ref), patience: patience}, func(driver.Instant) bool {
		if !done {
			done, gone = true, !st.evict(e.Ref)
		}
		return gone
	})
	if err == nil && was {
		err = driver.ErrGone
	}
	if err != nil {
		return fmt.Errorf("memory: evict %q from %q: %w", e.Key, e.Line, err)
	}
	return nil
}

func (b backend) Close() error { return nil }
