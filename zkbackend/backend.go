package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// backend is a list of servers and one layout.
type backend struct {
	servers []string
	opts    Options       // without Auth
	logins  func() []Auth // a func, or fmt would print what Auth hides: it asks no method of what is not exported
	ownDial bool          // names are for the user's own dialer
	lay     layout

	sealedACL []zk.ACL // Options.ACL for sessions with a seal: without "auth", see explicit
	clock     driver.Clock

	sealable atomic.Bool // the servers enforce permissions, and know a seal
	unsealed atomic.Bool // entries are not to be sealed
	wary     atomic.Bool // somebody's word was wrong: nobody's is believed

	mu      sync.Mutex
	open    map[*sess]bool // opened and not closed
	visitor *sess          // for reads, and deletes, while no session is there
	opening sync.Mutex     // held while a visitor is opened
	visits  sync.WaitGroup // the ends of visitors
	closed  bool
}

var _ driver.Backend = (*backend)(nil)

// NewBackend returns the backend that Open uses, for the conformance suite and for
// tools. It sends nothing.
func NewBackend(servers []string, opts *Options) (driver.Backend, error) {
	b, err := newBackend(servers, opts)
	if err != nil {
		return nil, fmt.Errorf("zkbackend: %w", err)
	}
	return b, nil
}

func newBackend(servers []string, opts *Options) (*backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	all, err := checkServers(servers)
	if err != nil {
		return nil, err
	}
	logins := o.Auth
	o.Auth = nil
	b := &backend{
		servers: all, opts: o, logins: func() []Auth { return logins }, ownDial: opts != nil && opts.Dial != nil,
		lay: newLayout(o.Root, o.Layout), clock: driver.SystemClock(), open: map[*sess]bool{},
	}
	if b.sealedACL = o.ACL; o.TLS == nil { // a certificate is an identity too
		b.sealedACL = explicit(o.ACL, logins)
	}
	// A seal would be part of what "auth" stands for, in folders too.
	b.unsealed.Store(slices.ContainsFunc(b.sealedACL, func(a zk.ACL) bool { return a.Scheme == "auth" }))
	return b, nil
}

// service is ZooKeeper's name in errors and tools.
const service = "zookeeper"

// Profile implements driver.Backend.
//
// The margin covers what a clock and a network may do to us in a moment: the
// servers expire a session at the first tick after its timeout, never before.
func (b *backend) Profile() driver.Profile {
	return driver.Profile{
		Service: service,
		MinTTL:  2 * time.Second,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, 100*time.Millisecond) },
		Ordered: true,
		Tells:   true,
		Moves:   true,

		MaxAll:   maxAll,
		MaxValue: maxValue,
	}
}

// Clock implements driver.Backend.
func (b *backend) Clock() driver.Clock { return b.clock }

// CheckName implements driver.Backend.
func (b *backend) CheckName(name string) error { return b.lay.check(name) }

// Close implements driver.Backend.
func (b *backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.dismiss()
	b.visits.Wait()
	return nil
}

// dismiss ends the visitor in the background, if there is one. It has no
// entries: if its end is not heard, nobody waits for it.
func (b *backend) dismiss() {
	b.mu.Lock()
	v := b.visitor
	b.visitor = nil
	b.mu.Unlock()
	if v == nil {
		return
	}
	b.visits.Go(func() {
		ctx, cancel := driver.WithTimeout(context.Background(), b.clock, time.Second)
		defer cancel()
		_ = v.Close(ctx)
	})
}

func (b *backend) remember(s *sess) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[s] = true
}

func (b *backend) forget(s *sess) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, s)
}

// visitorTTL is the timeout of a session that has no entries.
const visitorTTL = 10 * time.Second

// errClosed: the backend was closed under a reader.
var errClosed = errors.New("the backend is closed")

// guest returns a session for requests that belong to none: one of those that
// are open, or one that is opened for the purpose and kept until there is
// another.
func (b *backend) guest(ctx context.Context) (*sess, error) {
	if s := b.present(); s != nil {
		return s, nil
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	if s := b.present(); s != nil {
		return s, nil
	}
	s, err := b.openVisitor(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.visitor = s
	}
	b.mu.Unlock()
	if closed {
		_ = s.Close(ctx)
		return nil, fmt.Errorf("%w: %w", driver.ErrClosed, errClosed)
	}
	return s, nil
}

// present returns a session that is open and asks for more, preferably one that
// is connected.
func (b *backend) present() *sess {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found *sess
	for s := range b.open {
		if s.ctx.Err() != nil {
			continue
		}
		if found = s; s.connected() {
			return s
		}
	}
	return found
}

// openVisitor opens a visitor. Its proofs are nobody's.
func (b *backend) openVisitor(ctx context.Context) (*sess, error) {
	return b.openSess(ctx, driver.Config{
		TTL:    visitorTTL,
		Proof:  func(driver.Instant, time.Duration) {},
		Gone:   func(error) {},
		Logger: slog.New(slog.DiscardHandler),
	})
}

// Open opens a Session on the servers, each "host:port" (or "host", for port 2181).
// opts may be nil. Open returns an error that wraps session.ErrInvalidOptions (nothing
// was sent), session.ErrDenied (the servers refuse a login), session.ErrRefused (the
// servers' limits leave too short a session timeout) or session.ErrUnavailable, which
// contains the reason for each server. The last comes when ctx ends (after 5 s if it
// has no deadline).
func Open(ctx context.Context, servers []string, opts *Options) (*session.Session, error) {
	b, err := NewBackend(servers, opts)
	if err != nil {
		return nil, err
	}
	var o session.Options
	if opts != nil {
		o = opts.Session
	}
	s, err := session.Engine(door.Key{}).Open(ctx, b, &o)
	if err != nil {
		return nil, fmt.Errorf("zkbackend: %w", err)
	}
	return s, nil
}
