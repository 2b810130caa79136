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
	lease  *lease.Lease
	log    *slog.Logger
	newest atomic.Int64 // the newest revision of an answer
}

// answered takes in the revision of a linearizable answer. known is the newest one that the
// session knew when it sent the request. If the answer is older, the store went back: a
// snapshot was restored. No place and no token of this session means anything any more.
func (c *cluster) answered(known, rev int64) error {
	if rev < known {
		c.lease.Lost(fmt.Errorf("the store is at revision %d, and was at %d: a snapshot was restored", rev, known))
		return c.Ended()
	}
	c.seen(rev)
	return nil
}

// seen takes in the revision of any answer. If two calls race, the lower one may stay: then
// a store that went back is noticed a little later.
func (c *cluster) seen(rev int64) {
	if rev > c.newest.Load() {
		c.newest.Store(rev)
	}
}

// exchange is a call for which a transaction is sent until one is answered.
type exchange interface {
	// request returns the next attempt.
	request() *txn

	// answered is called after an attempt was answered, and its answers were read. met
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

// exchange makes attempts until one is answered. It returns the error of x, or one of its
// own. The latter means that no attempt was carried out or will be, unless x was called
// with unanswered, or the session is over. n is the first attempt.
func (c *cluster) exchange(ctx context.Context, x exchange, n rpc.Try) error {
	for {
		if err := c.Ended(); err != nil {
			return err
		}
		t, known := x.request(), c.newest.Load()
		if len(t.Compare)+len(t.Success) == 0 {
			return nil // nothing is left to do, and a member that is behind would answer
		}
		resp, err := rpc.Do(ctx, c.Sender, n, c.KV.Txn, &t.TxnRequest)
		if err == nil {
			if err := c.answered(known, resp.Header.Revision); err != nil {
				return err
			}
			t.read(resp, resp.Succeeded)
			again, err := x.answered(ctx, t, resp.Succeeded)
			if !again {
				return err
			}
			continue
		}
		out, full := rpc.Classify(err), error(nil)
		switch out {
		case rpc.SessionOver:
			c.lease.Lost(err)
		case rpc.Full:
			full = err
			fallthrough
		case rpc.Unknown:
			if over, err := x.unanswered(ctx, t, full); over {
				return err
			}
		case rpc.NotDone, rpc.BadToken, rpc.Denied, rpc.Refused:
		}
		if (out == rpc.Denied || out == rpc.Refused || out == rpc.Full) && x.strip(err) {
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
	// fresh is the floor of a read that must not be older than the call.
	fresh = 0
)

// read sends reads that are answered as of one revision, not before floor. Any member may
// answer from what it has, if the revision of the answer shows that this is new enough.
// The cluster as a whole answers a read that must be fresh, and one of a queue of which
// the session knows nothing.
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
			return resps, rev, c.answered(known, rev)
		case rev >= floor:
			c.seen(rev)
			return resps, rev, nil
		}
		// Events are reported a moment before the member that reports them can be read
		// at their revision.
		driver.Sleep(ctx, c.Clock, time.Millisecond)
	}
}

// readOnce sends reads until they are answered, as of one revision.
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
