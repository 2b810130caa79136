package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	maxAttempts = 8                     // under way at once
	leastPause  = 50 * time.Millisecond // between two attempts
)

// renewer keeps a lease alive. It makes an attempt when the newest renewal is a third of
// the window old, and another one after each ninth of the window until there is a newer
// renewal. Earlier attempts are not cancelled. Each renews the lease from its own time of
// sending. So on a slow network all of them count, and if some endpoints are dead, the
// first attempt that reaches another one counts.
type renewer struct {
	l       *Lease
	results chan result
	idle    *stream // one that has answered and waits for work

	renewed  driver.Instant // when the newest renewal was sent; the grant is the first
	last     driver.Instant // when the newest attempt was made
	underWay int
	failed   int  // how many attempts after the newest renewal have ended with an error
	asked    bool // a renewal is wanted now
}

// result is the outcome of one attempt.
type result struct {
	from *stream
	sent driver.Instant
	err  error
}

func (r *renewer) run() {
	now := r.l.send.Clock.Now()
	r.last = r.renewed
	r.results = make(chan result, maxAttempts)
	timer := time.NewTimer(r.due(now))
	defer timer.Stop()
	for {
		select {
		case <-r.l.send.Context().Done():
			return // the attempts end with the context too
		case res := <-r.results:
			r.ended(res)
		case <-r.l.asked:
			r.asked = true
		case <-timer.C:
		}
		now = r.l.send.Clock.Now()
		if r.due(now) <= 0 {
			r.attempt(now)
		}
		timer.Reset(max(r.due(now), time.Millisecond))
	}
}

// due returns the time until the next attempt.
func (r *renewer) due(now driver.Instant) time.Duration {
	window := r.l.Window
	if r.underWay >= maxAttempts {
		return window // a result will come first
	}
	if r.asked {
		return leastPause - now.Sub(r.last)
	}
	hedge := window / 9
	if r.failed > 0 { // nothing is gained by waiting for an attempt that has ended
		hedge = min(hedge, 25*time.Millisecond<<min(r.failed, 6))
	}
	return max(r.renewed.Add(r.l.lag()).Sub(now), hedge-now.Sub(r.last))
}

// attempt sends one renewal, on the stream that is idle or on a new one, which goes to
// the next endpoint.
func (r *renewer) attempt(now driver.Instant) {
	r.last, r.asked = now, false
	r.underWay++
	st := r.idle
	r.idle = nil
	if st == nil {
		st = &stream{l: r.l}
		st.ctx, st.cancel = context.WithCancel(clientv3.WithRequireLeader(r.l.send.Context()))
	}
	r.l.wg.Go(func() { // ends when the TTL has passed, or with the Sender
		r.results <- result{from: st, sent: now, err: st.renew(now)} // has room for all that are under way
	})
}

// ended handles the outcome of an attempt.
func (r *renewer) ended(res result) {
	r.underWay--
	if res.err == nil {
		r.failed, r.renewed = 0, max(r.renewed, res.sent)
		if r.idle == nil {
			r.idle = res.from
			return
		}
	}
	res.from.cancel()
	switch {
	case res.err == nil, r.l.send.Ended() != nil:
	case errors.Is(rpctypes.Error(res.err), rpctypes.ErrLeaseNotFound):
		r.l.Lost(res.err)
	case res.sent > r.renewed: // else a later attempt has renewed the lease
		// Attempts go on after any other error, also if a permission is missing: an operator
		// may grant it again before the deadline.
		if r.failed++; r.failed == 1 {
			r.l.cfg.Logger.Warn("etcd: lease not renewed, trying again", "lease", r.l.String(), "err", res.err)
		}
	}
}

// stream is a gRPC stream for one attempt after another. It is kept while its attempts
// succeed, because the client may log in again for each new stream, and etcd spends 50 ms of
// processor time on checking a password.
type stream struct {
	l      *Lease
	ctx    context.Context
	cancel context.CancelFunc
	rpc    pb.Lease_LeaseKeepAliveClient // nil until the first attempt
}

// renew makes one attempt, which may take as long as the lease lives.
func (st *stream) renew(sent driver.Instant) (err error) {
	late := time.AfterFunc(st.l.TTL, st.cancel)
	defer late.Stop()
	if st.rpc == nil {
		if st.rpc, err = st.l.send.Lease.LeaseKeepAlive(st.ctx, st.l.send.Options...); err != nil {
			return err
		}
	}
	// Recv returns the reason why a stream cannot be sent on.
	if err := st.rpc.Send(&pb.LeaseKeepAliveRequest{ID: st.l.ID}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	resp, err := st.rpc.Recv()
	switch {
	case err != nil && st.ctx.Err() != nil && st.l.send.Ended() == nil:
		return fmt.Errorf("no answer within %s: %w", st.l.TTL, err)
	case err != nil:
		return err
	case resp.TTL <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	if err := st.confirm(resp.Header.GetRaftTerm()); err != nil {
		return err
	}
	st.l.cfg.Renewed(sent, time.Duration(resp.TTL)*time.Second, st.l.lag())
	return nil
}

var errTerm = errors.New("another leader was elected since a member has answered")

// confirm returns an error unless a leader of that term leads now. Each endpoint is asked, because
// a member that was restored from a snapshot shows an older term until it carries out an entry.
func (st *stream) confirm(term uint64) error {
	for range st.l.send.Endpoints() {
		resp, err := rpc.Ask(st.ctx, st.l.send, st.l.send.KV.Range, &pb.RangeRequest{Key: st.l.key, KeysOnly: true})
		if err != nil {
			return err //nolint:wrapcheck // the log says what it is of
		}
		if resp.Header.GetRaftTerm() == term {
			return nil
		}
	}
	return errTerm
}
