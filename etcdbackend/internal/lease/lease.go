// Package lease keeps a lease of etcd alive.
package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// Lease is a lease, renewed until Stop or until the service does not have it any more.
type Lease struct {
	ID     int64
	TTL    time.Duration // that the service gives
	Window time.Duration // the time between a renewal and the deadline: TTL less margin

	cfg   driver.Config
	send  *rpc.Sender
	over  atomic.Bool // the service has no such lease any more
	asked chan struct{}
	ctx   context.Context // ends with Stop
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// Grant makes a lease and keeps it alive. An attempt that was not answered may leave a
// lease behind: nothing renews it, so it goes by itself. The client may send a request
// again by itself, later than we take it to be sent; that errs on the safe side.
func Grant(ctx context.Context, send *rpc.Sender, cfg driver.Config) (*Lease, error) {
	l := &Lease{cfg: cfg, send: send, asked: make(chan struct{}, 1)}
	r := &pb.LeaseGrantRequest{TTL: int64((cfg.TTL + time.Second - 1) / time.Second)}
	for t := (rpc.Try{}); l.ID == 0; {
		sent := send.Clock.Now()
		resp, err := rpc.Do(ctx, send, t, send.Lease.LeaseGrant, r)
		if err == nil {
			l.ID, l.TTL = resp.ID, time.Duration(resp.TTL)*time.Second
			cfg.Renewed(sent, l.TTL)
		} else if err := t.Again(ctx, send, err); err != nil {
			return nil, err
		}
	}
	l.Window = l.TTL - cfg.Margin(l.TTL)
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.wg.Go(func() { // ends with Stop, or with the lease
		(&renewer{l: l}).run()
	})
	return l, nil
}

// String returns the lease as etcdctl shows it.
func (l *Lease) String() string { return Name(l.ID) }

// Name returns a lease as etcdctl shows it.
func Name(id int64) string { return strconv.FormatUint(uint64(id), 16) } //nolint:gosec // ids are opaque bits

// Renew asks for a renewal now. It does not wait.
func (l *Lease) Renew() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// Lost takes in that the service has no such lease.
func (l *Lease) Lost(err error) {
	l.over.Store(true)
	l.stop()
	l.cfg.Gone(fmt.Errorf("etcd: lease %s: %w", l, err))
}

// Stop ends the renewals. It does not block.
func (l *Lease) Stop() { l.stop() }

// Revoke ends the lease, after Stop.
func (l *Lease) Revoke(ctx context.Context, send *rpc.Sender) error {
	l.wg.Wait()
	if l.over.Load() {
		return nil
	}
	_, err := rpc.Ask(ctx, send, send.Lease.LeaseRevoke, &pb.LeaseRevokeRequest{ID: l.ID})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it expired, or an earlier attempt did it
		return fmt.Errorf("etcd: revoke lease %s: %w", l, err)
	}
	l.over.Store(true)
	return nil
}
