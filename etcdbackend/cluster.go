package etcdbackend

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// cluster sends the requests of one session to the etcd cluster. An answer may prove that
// the session is over, because its lease is gone or because the store went back: then
// cluster ends the session.
type cluster struct {
	*rpc.Sender
	lease *lease.Lease
	log   *slog.Logger

	// newest is the newest revision of an answer that the session knows, of any request and of
	// any member. It only rises, see seen. A linearizable answer to a request that was sent
	// later is at least as new.
	newest atomic.Int64
}

// advance records the revision of a linearizable answer. known is the newest one that the
// session knew when it sent the request: not the newest one now, because an answer to a later
// request may have come first. If the answer is older, the store went back: a snapshot was
// restored. No place and no token of this session means anything any more, so it ends.
func (c *cluster) advance(known, rev int64) error {
	if rev < known {
		c.lease.Lost(fmt.Errorf("the store is at revision %d, and was at %d: a snapshot was restored", rev, known))
		return c.Ended()
	}
	c.seen(rev)
	return nil
}

// seen records the revision of any answer. If two calls race, the lower one may stay: then
// a store that went back is noticed a little later.
func (c *cluster) seen(rev int64) {
	if rev > c.newest.Load() {
		c.newest.Store(rev)
	}
}

// call is one call of Join, Leave or Update, over all its attempts: transactions that are sent
// until one is answered. Its methods are called one at a time.
type call interface {
	// attempt returns the next attempt. One without conditions and operations means that
	// nothing is left to do.
	attempt() *txn

	// answered is called after an attempt was answered, and its answers were decoded. met
	// reports whether its conditions held, so that it was carried out. again reports
	// whether another attempt must be made at once; if not, err ends the call.
	answered(ctx context.Context, t *txn, met bool) (again bool, err error)

	// unanswered is called when it is not known whether an attempt was carried out. If
	// full is not nil, it is the answer NOSPACE: then the attempt will not be carried out
	// later. If over, err ends the call.
	unanswered(ctx context.Context, t *txn, full error) (over bool, err error)

	// strip leaves the optional parts out of the next attempts, because of an error. It
	// reports whether there were any. etcd refuses a whole transaction for one key, and
	// does not name the key.
	strip(why error) bool
}

// perform makes attempts until one is answered. It returns the error of x, or one of its
// own. The latter means that no attempt was carried out or will be, unless x was called
// with unanswered, or the session is over. n is the first attempt.
//
// What follows from what an attempt ended with:
//
//	an answer            x.answered decides: done, another attempt, or an error
//	SessionOver          the session ends, and Again returns that
//	Unknown              x.unanswered finds out what can be found out, then another attempt
//	Full                 x.unanswered, then as Denied
//	NotDone, BadToken    another attempt, at another endpoint or with a new login
//	Denied, Refused      another attempt without the optional parts; without any, the end
func (c *cluster) perform(ctx context.Context, x call, n rpc.Attempt) error {
	for {
		if err := c.Ended(); err != nil {
			return err
		}
		t := x.attempt()
		known := c.newest.Load() // before the request is sent, see advance
		if len(t.Compare)+len(t.Success) == 0 {
			return nil // nothing is left to do, and a member that is behind would answer
		}
		resp, err := rpc.Send(ctx, c.Sender, n, c.KV.Txn, &t.TxnRequest)
		if err == nil {
			if err := c.advance(known, resp.Header.Revision); err != nil {
				return err
			}
			t.decode(resp, resp.Succeeded)
			again, err := x.answered(ctx, t, resp.Succeeded)
			if !again {
				return err
			}
			continue
		}
		out := rpc.Classify(err)
		refused := out == rpc.Denied || out == rpc.Refused || out == rpc.Full
		switch out {
		case rpc.SessionOver:
			c.lease.Lost(err)
		case rpc.Unknown, rpc.Full:
			var full error
			if out == rpc.Full {
				full = err
			}
			over, err := x.unanswered(ctx, t, full)
			if over {
				return err
			}
		case rpc.NotDone, rpc.BadToken, rpc.Denied, rpc.Refused:
		}
		if refused && x.strip(err) {
			c.log.DebugContext(ctx, "etcd: a request is sent again without its optional parts", "err", err)
			continue
		}
		if err := n.Again(ctx, c.Sender, err); err != nil {
			return err
		}
	}
}

const (
	// memberTries is how many members are asked before the cluster as a whole.
	memberTries = 2
	// fresh is the floor of a read that must not be older than the call, and of one of a
	// queue of which the session knows nothing.
	fresh = 0
)

// read sends reads that are answered as of one revision, not before floor.
//
// A member that answers from what it has (serializable) costs no other member anything, and
// can be behind. That is no harm if the revision of the answer shows that it is new enough:
// the state as of a revision is the same on every member. So:
//
//	floor  attempt   asks                       is good if
//	fresh  each      the cluster (linearizable) the store did not go back
//	> 0    1 and 2   one member, from its store the answer is not before floor
//	> 0    3         the cluster                the store did not go back
//
// The cluster as a whole needs no floor: its answer is not older than any answer or event
// before, and the floor comes from those.
func (c *cluster) read(ctx context.Context, floor int64, rs ...*pb.RangeRequest) (resps []*pb.RangeResponse, rev int64, err error) {
	n := 0
	if floor == fresh {
		n = memberTries
	}
	for ; ; n++ {
		for _, r := range rs {
			r.Serializable = n < memberTries
		}
		known := max(floor, c.newest.Load())
		resps, rev, err = c.readOnce(ctx, rs)
		switch {
		case err != nil:
			return resps, rev, err
		case n >= memberTries:
			return resps, rev, c.advance(known, rev)
		case rev >= floor:
			c.seen(rev)
			return resps, rev, nil
		}
		// Events are reported a moment before the member that reports them can be read
		// at their revision.
		driver.Sleep(ctx, c.Clock, time.Millisecond)
	}
}

// readOnce sends reads until they are answered, as of one revision. Several are one
// transaction: two Ranges could be answered by different members, as of different revisions.
func (c *cluster) readOnce(ctx context.Context, rs []*pb.RangeRequest) ([]*pb.RangeResponse, int64, error) {
	if len(rs) == 1 {
		resp, err := rpc.Ask(ctx, c.Sender, c.KV.Range, rs[0])
		return []*pb.RangeResponse{resp}, resp.GetHeader().GetRevision(), err
	}
	r := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(rs))}
	for i := range rs {
		r.Success[i] = opGet(rs[i])
	}
	resp, err := c.txn(ctx, r)
	resps := make([]*pb.RangeResponse, len(resp.GetResponses()))
	for i, a := range resp.GetResponses() {
		resps[i] = a.GetResponseRange()
	}
	return resps, resp.GetHeader().GetRevision(), err
}

// txn sends a transaction that may be carried out more than once, until it is answered.
func (c *cluster) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return rpc.Ask(ctx, c.Sender, c.KV.Txn, r)
}
