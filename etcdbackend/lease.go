package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// leased is one lease and all that hangs on it.
type leased struct {
	b    *backend
	cfg  driver.Config
	id   clientv3.LeaseID
	pace pace

	unordered bool // nothing is known of the order of the server's progress answers

	ctx    context.Context // ends with Abandon and Close
	cancel context.CancelFunc
	unbind func() bool    // ends the wait for the client's end
	wg     sync.WaitGroup // the goroutines that end with ctx

	over     atomic.Bool   // etcd has no such lease any more
	flight   chan struct{} // a token for each Join under way
	leaving  chan struct{} // and for each Leave
	attempts atomic.Int64  // numbers the fences
	lines    lines
	deep     deepLines
	prove    chan struct{} // asks the renewer for a proof now
	watches  watcher
}

// maxFlight bounds the Joins under way, and the Leaves. A server refuses everybody's
// requests when more than 5000 wait for it. And the time of an attempt must be the
// server's: of thousands that are sent at once most would wait for longer than an
// attempt may take, and be sent again and again.
const maxFlight = 256

var _ driver.Session = (*leased)(nil)

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	// Before the lease is granted: its time counts from then on.
	known, err := b.checkVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: open: %w", err)
	}
	p := b.pace().within(cfg)
	why := listen(ctx, b.whyNot)
	id, err := b.grant(ctx, cfg, p)
	why.quiet()
	if err != nil {
		if errors.Is(err, driver.ErrUnavailable) {
			err = why.told(fmt.Errorf("no answer from %s: %w", strings.Join(b.client.Endpoints(), ", "), err))
		}
		return nil, fmt.Errorf("etcd: grant a lease: %w", err)
	}
	s := &leased{
		b: b, cfg: cfg, id: id, pace: p, unordered: !known,
		flight:  make(chan struct{}, maxFlight),
		leaving: make(chan struct{}, maxFlight),
		prove:   make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.unbind = context.AfterFunc(b.client.Ctx(), func() { //nolint:contextcheck // it is about the client's end
		if !s.ended() {
			cfg.Gone(fmt.Errorf("etcd: %w: %w", driver.ErrClosed, errClientClosed))
		}
	})
	s.watches = newWatcher(s)
	s.wg.Go(func() { // ends with s.ctx, or with the lease
		(&renewer{s: s}).run()
	})
	return s, nil
}

// grant gets a lease. An attempt that was not answered may leave one behind,
// which nobody renews: it goes by itself. The client may send the request again
// by itself, later than we take it to be sent; that errs on the safe side.
func (b *backend) grant(ctx context.Context, cfg driver.Config, p pace) (id clientv3.LeaseID, err error) {
	seconds := int64((cfg.TTL + time.Second - 1) / time.Second)
	err = b.ask(ctx, p, func(ctx context.Context) error {
		sent := b.clock.Now()
		resp, err := b.client.Grant(ctx, seconds)
		if err != nil {
			return err
		}
		id = resp.ID
		cfg.Proof(sent, time.Duration(resp.TTL)*time.Second)
		return nil
	})
	return id, err
}

// ID implements driver.Session: the lease as etcdctl shows it.
func (s *leased) ID() string { return leaseName(s.id) }

func leaseName(id clientv3.LeaseID) string { return strconv.FormatUint(uint64(id), 16) }

// Prove implements driver.Session.
func (s *leased) Prove() {
	select {
	case s.prove <- struct{}{}:
	default:
	}
}

// lost takes in that etcd has no such lease.
func (s *leased) lost(err error) {
	s.over.Store(true)
	s.cfg.Gone(fmt.Errorf("etcd: lease %s: %w", s.ID(), err))
}

// ended says that nothing new can be made in this session.
func (s *leased) ended() bool { return s.over.Load() || s.ctx.Err() != nil }

// Abandon implements driver.Session.
func (s *leased) Abandon() {
	s.watches.stop()
	s.unbind()
	s.cancel()
}

// Close implements driver.Session.
func (s *leased) Close(ctx context.Context) error {
	s.Abandon()
	s.wg.Wait()
	if s.over.Load() {
		return nil
	}
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) error {
		_, err := s.b.client.Revoke(ctx, s.id)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil // it expired, or an earlier attempt did it
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("etcd: revoke lease %s: %w", s.ID(), err)
	}
	s.over.Store(true)
	return nil
}
