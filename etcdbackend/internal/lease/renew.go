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
//
// With a TTL of 10 s and a window of 9 s, and no answers: attempts 3, 4, 5, ... s after the
// newest renewal. With answers, one every 3 s. Only the goroutine of run uses the fields.
type renewer struct {
	l       *Lease
	results chan result // has room for all attempts that are under way

	// idle is a stream that has answered and waits for work; nil: there is none. next is where
	// the next new stream goes: the first endpoint in turn again after each renewal.
	idle *stream
	next rpc.Attempt

	// Invariant: renewed <= last. renewed is when the newest acknowledged renewal was sent, and
	// the grant is the first. last is when the newest attempt was made. renewed only rises,
	// although the answers come in any order.
	renewed, last driver.Instant

	underWay int  // how many attempts have not ended: 0 to maxAttempts
	failed   int  // how many attempts after the newest renewal have ended with an error
	asked    bool // a renewal is wanted now; the next attempt fulfils it
}

// result is the outcome of one attempt.
type result struct {
	from *stream
	sent driver.Instant
	err  error // nil: the lease was renewed, as of sent
}

// run makes attempts until the Sender ends.
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
			r.finished(res)
		case <-r.l.asked:
			r.asked = true
		case <-timer.C:
		}
		now = r.l.send.Clock.Now()
		if r.due(now) <= 0 {
			r.send(now)
		}
		timer.Reset(max(r.due(now), time.Millisecond))
	}
}

// due returns the time until the next attempt; it is due if that is not above 0:
//
//	maxAttempts are under way       when one of them has ended, at the latest after the window
//	one is asked for                leastPause after the newest attempt
//	none has failed since renewed   lag after the newest renewal, and a ninth of the window
//	                                after the newest attempt
//	some have failed                the same, but a pause after the newest attempt that begins
//	                                with 50 ms and doubles, up to a ninth of the window
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

// send makes one attempt, on the stream that is idle or on a new one, which goes to
// another endpoint than those of the attempts since the newest renewal.
func (r *renewer) send(now driver.Instant) {
	r.last, r.asked = now, false
	r.underWay++
	st := r.idle
	r.idle = nil
	if st == nil {
		st = &stream{l: r.l, attempt: r.next}
		st.ctx, st.cancel = context.WithCancel(rpc.Route(clientv3.WithRequireLeader(r.l.send.Context()), r.next))
		r.next.Next(r.l.send)
	}
	r.l.wg.Go(func() { // ends when the window has passed, or with the Sender
		r.results <- result{from: st, sent: now, err: st.renew(now)} // it has room
	})
}

// finished handles the outcome of an attempt:
//
//	renewed                        its stream waits for work, unless another one does already
//	any error after the end        nothing
//	the cluster has no such lease  the session ends
//	an error, and a later attempt  nothing: the lease was renewed since
//	has renewed the lease
//	any other error                the next attempt comes soon, also if a permission is missing:
//	                               an operator may grant it again before the deadline
func (r *renewer) finished(res result) {
	r.underWay--
	if res.err == nil {
		r.failed, r.renewed, r.next = 0, max(r.renewed, res.sent), rpc.Attempt{}
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
	case res.sent > r.renewed:
		r.failed++
		if r.failed == 1 { // the log has one line for each time that the lease is not renewed
			r.l.cfg.Logger.Warn("etcd: lease not renewed, trying again", "lease", r.l.String(), "err", res.err)
		}
	}
}

// stream is a gRPC stream for one attempt after another. It is kept while its attempts
// succeed, because the client may log in again for each new stream, and etcd spends 50 ms of
// processor time on checking a password.
//
// A stream makes one attempt at a time. After one that has failed it is cancelled.
type stream struct {
	l       *Lease
	attempt rpc.Attempt // where it goes; never changes
	ctx     context.Context
	cancel  context.CancelFunc            // also ends an attempt that is under way
	rpc     pb.Lease_LeaseKeepAliveClient // nil until the first attempt
}

// renew makes one attempt. After the window its answer would be of no use.
func (st *stream) renew(sent driver.Instant) (err error) {
	late := time.AfterFunc(st.l.Window, st.cancel)
	defer late.Stop()
	if st.rpc == nil {
		st.rpc, err = st.l.send.Lease.LeaseKeepAlive(st.ctx, st.l.send.Options...)
		if err != nil {
			return err
		}
	}
	err = st.rpc.Send(&pb.LeaseKeepAliveRequest{ID: st.l.ID})
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv returns the reason
		return err
	}
	terms := st.readTerms() // while the renewal is on its way
	resp, err := st.rpc.Recv()
	switch {
	case err != nil && st.ctx.Err() != nil && st.l.send.Ended() == nil:
		return fmt.Errorf("no answer within %s: %w", st.l.Window, err)
	case err != nil:
		return err
	case resp.TTL <= 0:
		return st.unknown()
	}
	if err := st.confirm(resp.Header.GetRaftTerm(), terms); err != nil {
		return err
	}
	st.l.cfg.Renewed(sent, time.Duration(resp.TTL)*time.Second, st.l.lag())
	return nil
}

var (
	errTerm   = errors.New("the answers are of different terms: a leader was elected, or a member lags behind")
	errBehind = errors.New("the member does not know the lease, which the cluster has")
)

// termRead is what a read has shown.
type termRead struct {
	term uint64
	err  error
}

// readTerms sends a linearizable read for each endpoint, and returns where the answers come. Like
// renewals, the reads are not given up for being slow.
//
// The reads of a first attempt take the turns of the client's connection, like most requests. One
// that is refused is sent once more, to the endpoint that it is for. Those of a later attempt go
// there at once: the turns may have led all the reads before to a member that does not answer.
func (st *stream) readTerms() <-chan termRead {
	all := make(chan termRead, len(st.l.send.Endpoints()))
	for i := range cap(all) {
		st.l.wg.Go(func() { // ends with the timeouts of the reads, or with the Sender
			var r termRead
			if !st.attempt.Named() {
				r = st.l.readTerm(rpc.Attempt{})
			}
			if st.attempt.Named() || r.err != nil && rpc.Classify(r.err) == rpc.NotDone {
				r = st.l.readTerm(rpc.To(i))
			}
			all <- r // has room for each
		})
	}
	return all
}

// readTerm sends one linearizable read, and records the newest term.
func (l *Lease) readTerm(a rpc.Attempt) termRead {
	a.Patient = true
	resp, err := rpc.Send(l.send.Context(), l.send, a, l.send.KV.Range, &pb.RangeRequest{Key: l.key, KeysOnly: true})
	term := resp.GetHeader().GetRaftTerm()
	for newest := l.term.Load(); term > newest && !l.term.CompareAndSwap(newest, term); {
		newest = l.term.Load()
	}
	return termRead{term, err}
}

// confirm returns nil if a renewal that shows a term counts: a leader that was replaced renews
// leases too, in its memory, as long as it does not know that. So a read that was sent after the
// renewal must show the same term: then no other leader was elected before it was sent, and one
// that was elected later has begun the TTL of each lease anew (lessor.Promote in etcd). The first
// read that shows this is enough. If none does, the error is that of the last one.
//
// A member that was restored from a snapshot shows an older term until it carries out an entry. So
// a term that is older than a read has shown proves nothing.
func (st *stream) confirm(term uint64, reads <-chan termRead) error {
	err := errTerm
	for range cap(reads) {
		select {
		case r := <-reads:
			err = r.err
			if err != nil {
				continue // another endpoint may answer
			}
			if r.term == term && term >= st.l.term.Load() {
				return nil
			}
			err = errTerm
		case <-st.ctx.Done():
			return fmt.Errorf("no answer to a read within %s: %w", st.l.Window, st.ctx.Err())
		}
	}
	return err
}

// unknown is called when the answer to a renewal is that there is no such lease. It returns
// ErrLeaseNotFound if the cluster does not have it either. A member that was replaced
// as the leader, or lags behind, does not know a lease that was granted since. So a write must
// show it; if it succeeds, its key ends with the lease.
func (st *stream) unknown() error {
	to := st.attempt
	to.Patient = true
	_, err := rpc.Send(st.ctx, st.l.send, to, st.l.send.KV.Put, &pb.PutRequest{Key: st.l.key, Lease: st.l.ID})
	if err == nil {
		err = errBehind
	}
	return err //nolint:wrapcheck // the log says what it is of
}
