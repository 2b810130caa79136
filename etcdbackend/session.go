package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// etcdSession is one lease with the entries on it, or an observer, which has neither.
//
//	Join, Leave, Update       a call (join, departure, update), of attempts that cluster sends
//	Read, Names               reader, of reads that cluster sends
//	Watch                     hub, on one stream of its own
//	what is known             queues, which sends nothing
//	whether the session lives lease, which renews it
//
// Nothing in here changes after newSession, but for what has a mutex of its own.
type etcdSession struct {
	lay   layout
	log   *slog.Logger
	lease *lease.Lease // that of an observer has the ID 0

	cluster *cluster
	queues  *queues
	reader  *reader
	hub     *watch.Hub

	joining, leaving limiter // the Joins under way, and the Leaves
	fences           cells   // of joins, see cell
	witnesses        cells   // of Updates that write no entry
	remains          remains // of releases, see first.go
}

// limiter bounds how many calls of one kind are under way. More calls wait until one ends, in
// no order: the service decides about the order in a queue, when the requests arrive there.
type limiter chan struct{}

// maxFlight is how many a limiter lets be under way. A server refuses every client's
// requests when more than 5000 wait for it. And the time of an attempt must be the
// server's: if thousands are sent at once, most of them wait for longer than an attempt
// may take, and are sent again and again.
const maxFlight = 256

// begin waits until less than maxFlight calls are under way. With an error nothing was sent.
func (l limiter) begin(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case l <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return driver.ContextError(ctx) //nolint:wrapcheck // the verbs do
}

// end lets another call begin.
func (l limiter) end() { <-l }

// observerTTL paces the requests of a session without a lease.
const observerTTL = 15 * time.Second

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	b.files.log(cfg.Logger)
	ttl, window := observerTTL, observerTTL
	if !cfg.Observer {
		ttl, window = cfg.TTL, cfg.TTL-cfg.Margin(cfg.TTL)
	}
	send := b.rpc.NewSender(ttl, window) //nolint:contextcheck // it outlives the call
	// The lease is granted when a server has answered: its time counts from then on.
	err := b.rpc.Reach(ctx)
	var l *lease.Lease
	key := b.lay.serial(fenceFolder, 0, 0)
	switch {
	case err != nil:
	case b.lease != 0 && !cfg.Observer:
		l, err = lease.Adopt(ctx, send, cfg, key, b.lease)
	default:
		l, err = lease.Grant(ctx, send, cfg, key)
	}
	if err != nil {
		send.End(err)
		return nil, fmt.Errorf("etcd: open: %w", err)
	}
	if !cfg.Observer {
		b.lease = 0 // sessions with a lease are opened one after the other
	}
	context.AfterFunc(send.Context(), func() { //nolint:contextcheck // it is about the client's end
		err := send.Ended()
		if errors.Is(err, rpc.ErrClientClosed) {
			cfg.Gone(fmt.Errorf("etcd: %w", err))
		}
	})
	return newSession(b.lay, send, l, window, cfg), nil
}

// newSession returns the session of a lease. window is what the session has from a renewal to
// its deadline. After an eighth of it without a message, the watch stream is asked for one, and
// after a quarter it is given up: then a waiter still has time to learn of its turn.
func newSession(lay layout, send *rpc.Sender, l *lease.Lease, window time.Duration, cfg driver.Config) *etcdSession {
	s := &etcdSession{
		lay: lay, log: cfg.Logger, lease: l,
		cluster: &cluster{Sender: send, lease: l, log: cfg.Logger}, queues: newQueues(lay, l.ID),
		joining: make(limiter, maxFlight), leaving: make(limiter, maxFlight),
		fences: cells{folder: fenceFolder}, witnesses: cells{folder: witnessFolder},
	}
	s.reader = &reader{s.cluster, s.queues}
	s.remains.s, s.remains.every = s, min(sweepTime, window/2)
	s.hub = watch.New(watch.Config{
		Send: send, Session: s.ID(), Quiet: max(window/8, 250*time.Millisecond), Logger: cfg.Logger,
		Marks: marksOf, States: s.reader.states, Floor: s.queues.floor, Reported: s.queues.reported,
	})
	return s
}

// ID implements driver.Session: the lease as etcdctl shows it.
func (s *etcdSession) ID() string { return s.lease.String() }

// Since implements driver.Session: etcd ends no life, see package driver.
func (s *etcdSession) Since() int64 { return 0 }

// Join implements driver.Session.
func (s *etcdSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	joined, err := (&join{s: s}).do(ctx, reqs)
	switch {
	case err == nil:
		return joined, nil
	case len(reqs) == 1:
		return nil, fmt.Errorf("etcd: join %q: %w", reqs[0].Queue, err)
	}
	return nil, fmt.Errorf("etcd: join %d queues: %w", len(reqs), err)
}

// Leave implements driver.Session.
func (s *etcdSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := (&departure{s: s}).do(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("etcd: leave %q: %w", reqs[0].Ref.Queue, err)
	}
	return left, nil
}

// Read implements driver.Session.
func (s *etcdSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.reader.view(ctx, &req)
	if err != nil {
		return driver.View{}, fmt.Errorf("etcd: read %q: %w", req.Queue, err)
	}
	return v, nil
}

// Update implements driver.Session.
func (s *etcdSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := (&update{s: s, UpdateRequest: &req}).do(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: update %q: %w", req.Queue, err)
	}
	return results, nil
}

// Names implements driver.Session.
func (s *etcdSession) Names(ctx context.Context, prefix string) ([]string, error) {
	names, err := s.reader.names(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("etcd: names with prefix %q: %w", prefix, err)
	}
	return names, nil
}

// Watch implements driver.Session.
func (s *etcdSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return s.hub.Watch(s.queues.target(t), f)
}

// Renew implements driver.Session.
func (s *etcdSession) Renew() { s.lease.Renew() }

// Abandon implements driver.Session. The lease stays, and expires.
func (s *etcdSession) Abandon() {
	s.hub.Stop()
	s.cluster.End(fmt.Errorf("%w: it was abandoned", driver.ErrSessionOver))
}

// Close implements driver.Session. The goroutines end before the lease is revoked, so none of
// them sees the end of the entries as an end of the session.
func (s *etcdSession) Close(ctx context.Context) error {
	s.Abandon()
	s.hub.Wait()
	return s.lease.Revoke(ctx)
}
