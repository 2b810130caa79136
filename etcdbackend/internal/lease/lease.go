// Package lease keeps a lease of etcd alive.
//
// The client's KeepAlive is not used, for two reasons. It counts the TTL from the time of
// the answer instead of the time of sending, so it trusts a lease for longer than the server
// keeps it. And its stream stays on one connection: if that goes silent, the lease expires.
//
// # What an answer proves
//
// A leader renews a lease in its memory, and asks no other member. Another leader may have been
// elected meanwhile, and lets the lease expire. A leader that hangs in a write to its disk does not
// notice that for some ticks (etcd issue 15247; no version checks what a follower forwards). So
// linearizable reads go behind each renewal. A leader serves those when it has committed an entry
// of its own term, and a majority has confirmed it, and a member shows the term of the entries that
// it has carried out. If the term is that of the renewal's answer, no other leader was elected
// before the read was sent, and a later one gives each lease its whole TTL. (With LeaseCheckpoint,
// which is off by default, and more than 5 minutes, it can give a lease less, if the leader before
// was replaced while the renewal was on its way.)
//
//	1  the client sends the renewal              the deadline will count from here
//	2  the leader of term 7 renews the lease     it may have been replaced already
//	3  the client sends the read
//	4  a majority confirms the leader of term 7  so no other one was elected before 3
//	5  both answers show term 7                  the renewal counts
//
// A leader that is elected after 3 begins the TTL of each lease anew, and so after 1.
//
// If the read shows another term, or none comes, the renewal does not count, and another one is
// made, at another endpoint.
package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// Lease is a lease that is renewed until its Sender ends. The Lease of an observer has no
// ID: there is nothing at the service, and nothing is renewed.
type Lease struct {
	// These never change after Grant. With an ID of 0, all are 0.
	ID     int64
	TTL    time.Duration // that the service gives
	Window time.Duration // the time between a renewal and the deadline: TTL less margin

	cfg  driver.Config
	send *rpc.Sender // its end ends the renewals
	key  []byte      // that the login may read and write: the reads of renewals are of it

	// term is the newest term that a read of a renewal has shown. It only rises. An answer with
	// a lower one is of a member that lags behind, and proves nothing.
	term atomic.Uint64

	over  atomic.Bool    // the service has no such lease any more; never false again
	asked chan struct{}  // has one if a renewal is wanted now; more wishes are one
	wg    sync.WaitGroup // the renewer, its attempts and their reads
}

// Grant makes a lease and keeps it alive. An attempt that was not answered may leave a
// lease behind, which nothing renews, so it expires. The client may send a request again
// by itself, later than the time that is taken for its sending; the deadline is then too
// early, which is safe. key is one that the login may read and write; it need not be there.
func Grant(ctx context.Context, send *rpc.Sender, cfg driver.Config, key []byte) (*Lease, error) {
	l := &Lease{cfg: cfg, send: send, key: key, asked: make(chan struct{}, 1)}
	if cfg.Observer {
		return l, nil
	}
	r := &pb.LeaseGrantRequest{TTL: int64((cfg.TTL + time.Second - 1) / time.Second)}
	var sent driver.Instant
	for t := (rpc.Attempt{}); l.ID == 0; {
		sent = send.Clock.Now()
		resp, err := rpc.Send(ctx, send, t, send.Lease.LeaseGrant, r)
		if err == nil {
			l.ID, l.TTL = resp.ID, time.Duration(resp.TTL)*time.Second
			l.Window = l.TTL - cfg.Margin(l.TTL)
			cfg.Renewed(sent, l.TTL, l.lag())
		} else if err := t.Again(ctx, send, err); err != nil {
			return nil, fmt.Errorf("grant a lease at %s: %w", strings.Join(send.Endpoints(), ", "), err)
		}
	}
	l.keep(sent) //nolint:contextcheck // ends with the Sender
	return l, nil
}

// leastTTL is that of the shortest lease that is taken over: etcd grants none that is shorter, and
// less would leave no time before the deadline.
const leastTTL = 2 * time.Second

// Adopt is Grant for a lease that exists. It returns when a renewal has counted: what a server
// reports of a lease can be what a leader that was replaced believes. The Lease is that of the
// caller from then on, but nothing keeps other programs from using it.
func Adopt(ctx context.Context, send *rpc.Sender, cfg driver.Config, key []byte, id int64) (*Lease, error) {
	resp, err := rpc.Ask(ctx, send, send.Lease.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: id})
	ttl := time.Duration(resp.GetGrantedTTL()) * time.Second
	switch {
	case err != nil:
		return nil, fmt.Errorf("take over lease %s: %w", Name(id), err)
	case resp.TTL <= 0:
		return nil, fmt.Errorf("%w: there is no lease %s", driver.ErrRefused, Name(id))
	case ttl < leastTTL:
		return nil, fmt.Errorf("%w: lease %s has a TTL of %s, below %s", driver.ErrRefused, Name(id), ttl, leastTTL)
	}
	l := &Lease{ID: id, TTL: ttl, Window: ttl - cfg.Margin(ttl), cfg: cfg, send: send, key: key, asked: make(chan struct{}, 1)}
	counted := make(chan struct{}, 1)
	l.cfg.Renewed = func(sent driver.Instant, ttl, lag time.Duration) {
		cfg.Renewed(sent, ttl, lag)
		select {
		case counted <- struct{}{}:
		default: // Adopt waits for the first one
		}
	}
	l.Renew()
	l.keep(send.Clock.Now()) //nolint:contextcheck // the same
	select {
	case <-counted:
		return l, nil
	case <-send.Context().Done():
		return nil, fmt.Errorf("take over lease %s: %w", Name(id), send.Ended())
	case <-ctx.Done():
		return nil, fmt.Errorf("take over lease %s: no renewal of it was confirmed: %w", Name(id), driver.ContextError(ctx))
	}
}

// keep starts to renew the lease, which was renewed last at that time.
func (l *Lease) keep(renewed driver.Instant) {
	l.wg.Go(func() { // ends with the Sender
		(&renewer{l: l, renewed: renewed}).run()
	})
}

// String returns the lease as etcdctl shows it, "" for that of an observer.
func (l *Lease) String() string {
	if l.ID == 0 {
		return ""
	}
	return Name(l.ID)
}

// Name returns a lease as etcdctl shows it.
func Name(id int64) string { return strconv.FormatUint(uint64(id), 16) } //nolint:gosec // ids are opaque bits

// Renew asks for a renewal now. It does not wait.
func (l *Lease) Renew() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// lag returns how old the newest renewal is when the next one is sent.
func (l *Lease) lag() time.Duration { return l.Window / 3 }

// Lost ends the session, because an answer has shown that it is over. It may be called more
// than once. The Sender ends first, so nothing is sent any more when Gone is called.
func (l *Lease) Lost(err error) {
	if rpc.Classify(err) == rpc.SessionOver {
		l.over.Store(true)
	}
	err = fmt.Errorf("etcd: session %q: %w: %w", l.String(), driver.ErrSessionOver, err)
	l.send.End(err)
	l.cfg.Gone(err)
}

// Revoke ends the lease at the service, after the Sender has ended. So it needs a Sender of its
// own. It sends nothing where the service is known to have no such lease.
func (l *Lease) Revoke(ctx context.Context) error {
	l.wg.Wait()
	if l.ID == 0 || l.over.Load() {
		return nil
	}
	send := l.send.NewSender(l.TTL, l.Window) //nolint:contextcheck // its requests have ctx
	defer send.End(driver.ErrClosed)
	_, err := rpc.Ask(ctx, send, send.Lease.LeaseRevoke, &pb.LeaseRevokeRequest{ID: l.ID})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it expired, or an earlier attempt did it
		return fmt.Errorf("etcd: revoke lease %s: %w", l, err)
	}
	return nil
}
