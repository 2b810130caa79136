package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// Why not the client's KeepAlive: it counts from when an answer came instead of
// from when the request was sent, so it believes in a lease for longer than the
// server does; and its one stream stays on one connection, so that a connection
// that goes silent takes the lease with it.
const (
	maxRenewals  = 8                     // attempts under way at once
	proveSpacing = 50 * time.Millisecond // the least time between two attempts
)

// renewer keeps a lease alive. An attempt is made when the newest proof is a
// third of the window old, and one more every ninth until there is a newer
// proof. Earlier attempts are not cancelled: each counts from its own time, so
// on a slow network they all do, and on a broken one the first to reach a
// living endpoint does.
type renewer struct {
	s       *leased
	results chan renewal
	idle    *renewStream // one that has answered and waits for work

	proven driver.Instant // when the newest proof was sent
	last   driver.Instant // when the newest attempt was sent
	flying int
	failed int // how many attempts in a row were answered by an error
	asked  bool
	warned bool
}

// renewal is the outcome of one attempt.
type renewal struct {
	from *renewStream
	sent driver.Instant
	err  error
}

func (r *renewer) run() {
	now := r.s.b.clock.Now()
	r.proven, r.last = now, now
	r.results = make(chan renewal, maxRenewals)
	timer := time.NewTimer(r.due(now))
	defer timer.Stop()
	for {
		select {
		case <-r.s.ctx.Done():
			return // the streams end with the context too, and s.wg counts them
		case res := <-r.results:
			if over := r.take(res); over {
				return
			}
		case <-r.s.prove:
			r.asked = true
		case <-timer.C:
		}
		now = r.s.b.clock.Now()
		if r.due(now) <= 0 {
			r.attempt(now)
		}
		timer.Reset(max(r.due(now), time.Millisecond))
	}
}

// due is how long it is until the next attempt.
func (r *renewer) due(now driver.Instant) time.Duration {
	window := r.s.cfg.Window
	if r.flying >= maxRenewals {
		return window // a result will come first
	}
	if r.asked {
		return proveSpacing - now.Sub(r.last)
	}
	next := r.proven.Add(window / 3)
	hedge := window / 9
	if r.failed > 0 { // answered already: no reason to wait for that one
		hedge = min(hedge, 25*time.Millisecond<<min(r.failed, 6))
	}
	return max(next.Sub(now), hedge-now.Sub(r.last))
}

// attempt sends one renewal, on the stream that is idle or on a new one, which
// goes to the next endpoint.
func (r *renewer) attempt(now driver.Instant) {
	r.last, r.asked = now, false
	r.flying++
	st := r.idle
	r.idle = nil
	if st == nil {
		st = newRenewStream(r.s, r.results)
	}
	st.work <- now // it is idle, so there is room
}

// take notes the outcome of an attempt, and says whether the lease is over.
func (r *renewer) take(res renewal) bool {
	r.flying--
	if res.err == nil {
		r.failed, r.warned = 0, false
		r.proven = max(r.proven, res.sent)
		if r.idle == nil {
			r.idle = res.from
		} else {
			res.from.cancel()
		}
		return false
	}
	res.from.cancel()
	switch {
	case r.s.ctx.Err() != nil:
	case errors.Is(rpctypes.Error(res.err), rpctypes.ErrLeaseNotFound):
		r.s.lost(res.err)
		if r.idle != nil {
			r.idle.cancel()
		}
		return true
	case res.sent <= r.proven:
		// A newer attempt went another way.
	default:
		// Whatever it is, also a permission that is missing: the deadline
		// decides when to stop, and until then the lease is worth asking for.
		r.failed++
		if !r.warned {
			r.warned = true
			r.s.cfg.Logger.Warn("etcd: lease not renewed, trying again", "lease", r.s.ID(), "err", res.err)
		}
	}
	return false
}

// renewStream makes one attempt after another on a stream of its own. It is
// kept for as long as it answers, because with every stream the client logs in
// anew, and etcd spends 50 ms of processor on checking a password.
type renewStream struct {
	s       *leased
	ctx     context.Context
	cancel  context.CancelFunc
	work    chan driver.Instant // when the attempt is taken to be sent
	results chan<- renewal
	open    renewals // nil until the first attempt
}

// newRenewStream starts the stream's goroutine, which ends with cancel, with
// the session, or when an attempt fails.
func newRenewStream(s *leased, results chan<- renewal) *renewStream {
	st := &renewStream{s: s, work: make(chan driver.Instant, 1), results: results}
	st.ctx, st.cancel = context.WithCancel(s.ctx)
	s.wg.Go(func() {
		defer st.cancel()
		for {
			select {
			case <-st.ctx.Done():
				return
			case sent := <-st.work:
				err := st.renew(sent)
				results <- renewal{from: st, sent: sent, err: err} // has room for all that fly
				if err != nil {
					return
				}
			}
		}
	})
	return st
}

// renew makes one attempt, which may take as long as the lease lives.
func (st *renewStream) renew(sent driver.Instant) error {
	late := time.AfterFunc(st.s.cfg.TTL, st.cancel)
	defer late.Stop()
	if st.open == nil {
		open, err := st.s.b.renewals(st.ctx)
		if err != nil {
			return err
		}
		st.open = open
	}
	ttl, err := st.open(st.s.id)
	switch {
	case err != nil && st.ctx.Err() != nil && st.s.ctx.Err() == nil:
		return fmt.Errorf("no answer within %s: %w", st.s.cfg.TTL, err)
	case err != nil:
		return err
	case ttl <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	st.s.cfg.Proof(sent, time.Duration(ttl)*time.Second)
	return nil
}
