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

	"github.com/fairlock/fairlock/session/driver"
)

// Why not the client's KeepAlive: it counts from when an answer came instead of from
// when the request was sent, so it trusts a lease for longer than the server keeps it;
// and its one stream stays on one connection, so that a connection that goes silent
// takes the lease with it.
const (
	maxAttempts = 8                     // under way at once
	leastPause  = 50 * time.Millisecond // between two attempts
)

// renewer keeps a lease alive. It makes an attempt when the newest renewal is a third of
// the window old, and one more every ninth until there is a newer one. Earlier attempts
// are not cancelled: each counts from its own time, so on a slow network they all do,
// and on a broken one the first to reach a living endpoint does.
type renewer struct {
	l       *Lease
	results chan result
	idle    *stream // one that has answered and waits for work

	renewed  driver.Instant // when the newest renewal was sent
	last     driver.Instant // when the newest attempt was
	underWay int
	failed   int // how many attempts in a row an error has answered
	asked    bool
}

// result is the outcome of one attempt.
type result struct {
	from *stream
	sent driver.Instant
	err  error
}

func (r *renewer) run() {
	now := r.l.send.Clock.Now()
	r.renewed, r.last = now, now
	r.results = make(chan result, maxAttempts)
	timer := time.NewTimer(r.due(now))
	defer timer.Stop()
	for {
		select {
		case <-r.l.ctx.Done():
			return // the streams end with the context too, and l.wg counts them
		case res := <-r.results:
			r.take(res)
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

// due is how long it is until the next attempt.
func (r *renewer) due(now driver.Instant) time.Duration {
	window := r.l.Window
	if r.underWay >= maxAttempts {
		return window // a result will come first
	}
	if r.asked {
		return leastPause - now.Sub(r.last)
	}
	hedge := window / 9
	if r.failed > 0 { // answered already: no reason to wait for that one
		hedge = min(hedge, 25*time.Millisecond<<min(r.failed, 6))
	}
	return max(r.renewed.Add(window/3).Sub(now), hedge-now.Sub(r.last))
}

// attempt sends one renewal, on the stream that is idle or on a new one, which goes to
// the next endpoint.
func (r *renewer) attempt(now driver.Instant) {
	r.last, r.asked = now, false
	r.underWay++
	st := r.idle
	r.idle = nil
	if st == nil {
		st = newStream(r.l, r.results)
	}
	st.work <- now // it is idle, so there is room
}

// take notes the outcome of an attempt.
func (r *renewer) take(res result) {
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
	case res.err == nil, r.l.ctx.Err() != nil:
	case errors.Is(rpctypes.Error(res.err), rpctypes.ErrLeaseNotFound):
		r.l.Lost(fmt.Errorf("%w: %w", driver.ErrSessionOver, res.err))
	case res.sent > r.renewed: // or a newer attempt went another way
		// Whatever it is, also a permission that is missing: the deadline decides when
		// to stop, and until then the lease is worth asking for.
		if r.failed++; r.failed == 1 {
			r.l.cfg.Logger.Warn("etcd: lease not renewed, trying again", "lease", r.l.String(), "err", res.err)
		}
	}
}

// stream makes one attempt after another on a gRPC stream of its own. It is kept for as
// long as it answers, because with every stream the client logs in anew, and etcd spends
// 50 ms of processor on checking a password.
type stream struct {
	l      *Lease
	ctx    context.Context
	cancel context.CancelFunc
	work   chan driver.Instant           // when the attempt is taken to be sent
	rpc    pb.Lease_LeaseKeepAliveClient // nil until the first attempt
}

// newStream starts the stream's goroutine, which ends with cancel, with the lease's
// context, or when an attempt fails.
func newStream(l *Lease, results chan<- result) *stream {
	st := &stream{l: l, work: make(chan driver.Instant, 1)}
	st.ctx, st.cancel = context.WithCancel(clientv3.WithRequireLeader(l.ctx))
	l.wg.Go(func() {
		defer st.cancel()
		for err := error(nil); err == nil; {
			select {
			case <-st.ctx.Done():
				return
			case sent := <-st.work:
				err = st.renew(sent)
				results <- result{from: st, sent: sent, err: err} // has room for all that are under way
			}
		}
	})
	return st
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
	case err != nil && st.ctx.Err() != nil && st.l.ctx.Err() == nil:
		return fmt.Errorf("no answer within %s: %w", st.l.TTL, err)
	case err != nil:
		return err
	case resp.TTL <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	st.l.cfg.Renewed(sent, time.Duration(resp.TTL)*time.Second)
	return nil
}
