package etcdbackend

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// etcdSession is one lease and all that hangs on it, or an observer without a lease.
type etcdSession struct {
	b      *backend
	cfg    driver.Config
	lease  *lease.Lease // nil: an observer
	send   *rpc.Sender
	hub    *watch.Hub
	unbind func() bool // ends the wait for the client's end

	joining chan struct{} // a token for each Join under way
	leaving chan struct{} // and for each Leave
	serials atomic.Int64  // numbers fences and witnesses

	mu        sync.Mutex
	queues    map[string]*queue
	sweep     int     // when to look for queues to forget
	dropped   int64   // the floor of queues that are not remembered
	witnesses []*cell // that no Update uses now
}

// maxFlight bounds the Joins under way, and the Leaves. A server refuses every client's
// requests when more than 5000 wait for it. And the time of an attempt must be the
// server's: of thousands that are sent at once most would wait for longer than an
// attempt may take, and be sent again and again.
const maxFlight = 256

// observerTTL paces the requests of a session without a lease.
const observerTTL = 15 * time.Second

var _ driver.Session = (*etcdSession)(nil)

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s := &etcdSession{
		b: b, cfg: cfg, queues: make(map[string]*queue), sweep: leastQueues,
		joining: make(chan struct{}, maxFlight), leaving: make(chan struct{}, maxFlight),
	}
	ttl, window := observerTTL, observerTTL
	if !cfg.Observer {
		ttl, window = cfg.TTL, cfg.TTL-cfg.Margin(cfg.TTL)
	}
	s.send = b.rpc.NewSender(ttl, window)
	s.cfg.Gone = func(err error) {
		s.send.End(fmt.Errorf("%w: %w", driver.ErrSessionOver, err))
		cfg.Gone(err)
	}
	// Before the lease is granted: its time counts from then on.
	if err := b.reach(ctx); err != nil {
		return nil, fmt.Errorf("etcd: open: %w", err)
	}
	if !cfg.Observer {
		var err error
		if s.lease, err = lease.Grant(ctx, s.send, s.cfg); err != nil {
			return nil, fmt.Errorf("etcd: grant a lease at %s: %w", strings.Join(b.rpc.Endpoints(), ", "), err)
		}
	}
	s.hub = watch.New(watch.Config{Host: s, Send: s.send, Session: s.ID(), Quiet: max(window/8, 250*time.Millisecond), Logger: cfg.Logger})
	s.unbind = context.AfterFunc(b.client.Ctx(), func() { //nolint:contextcheck // it is about the client's end
		if s.send.Ended() == nil {
			s.send.End(rpc.ErrClientClosed)
			cfg.Gone(fmt.Errorf("etcd: %w", rpc.ErrClientClosed))
		}
	})
	return s, nil
}

// ID implements driver.Session: the lease as etcdctl shows it.
func (s *etcdSession) ID() string {
	if s.lease == nil {
		return ""
	}
	return s.lease.String()
}

// Renew implements driver.Session.
func (s *etcdSession) Renew() {
	if s.lease != nil {
		s.lease.Renew()
	}
}

// lost takes in that an answer has shown that the session is over.
func (s *etcdSession) lost(err error) {
	if s.lease != nil {
		s.lease.Lost(err)
	} else {
		s.cfg.Gone(err)
	}
}

// Abandon implements driver.Session.
func (s *etcdSession) Abandon() {
	s.unbind()
	s.hub.Stop()
	if s.lease != nil {
		s.lease.Stop()
	}
	s.send.End(fmt.Errorf("%w: it was abandoned", driver.ErrSessionOver))
}

// Close implements driver.Session.
func (s *etcdSession) Close(ctx context.Context) error {
	s.Abandon()
	s.hub.Wait()
	if s.lease == nil {
		return nil
	}
	return s.lease.Revoke(ctx, s.b.rpc.NewSender(s.lease.TTL, s.lease.Window))
}

// enter waits for a token. With an error nothing was sent.
func enter(ctx context.Context, tokens chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case tokens <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
}
