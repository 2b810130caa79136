package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	// fullDepth is up to how many entries a line is read with its values at
	// once. etcd reads a whole line before it sorts it, and without values it
	// does so from memory.
	fullDepth = 32
	// details is how many entries nearest to the place of interest must be
	// known to have a lease: who blocks is among them.
	details = 3
	// maxDetails bounds how many entries are read in detail: a transaction
	// takes 128 operations.
	maxDetails = 64
	// lookBehind is how often a member that lags is asked before the cluster.
	lookBehind = 3
)

// Look implements driver.Session.
func (s *leased) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	depth, known := s.lines.depth(req.Line)
	v, err := s.look(ctx, req, known && depth <= fullDepth)
	if err != nil {
		return driver.View{}, fmt.Errorf("etcd: read %q: %w", req.Line, err)
	}
	return v, nil
}

// look reads the line up to a place. A read that any member answers from what
// it has is good enough if it is new enough, which the revision in the answer
// tells: everything that was made since stands behind.
func (s *leased) look(ctx context.Context, req driver.LookRequest, full bool) (driver.View, error) {
	r := &pb.RangeRequest{
		Key: []byte(s.b.lay.prefix(req.Line)), MaxCreateRevision: req.Upto, KeysOnly: !full,
		SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_DESCEND,
	}
	r.RangeEnd = prefixEnd(string(r.Key))
	if req.Nearest > 0 {
		r.Limit = int64(req.Nearest) + 1
	}
	resp, limit, rev, err := s.freshLine(ctx, r, req)
	if err != nil {
		return driver.View{}, err
	}
	s.lines.setDepth(req.Line, resp.Count)
	kvs := resp.Kvs
	// The limit has room for the own entry; if that is gone, one more came.
	if n := len(kvs); req.Nearest > 0 && n > req.Nearest && kvs[0].CreateRevision != req.Upto {
		kvs = kvs[:req.Nearest]
	}
	v := driver.View{Rev: rev, Complete: !resp.More && len(kvs) == len(resp.Kvs), Limit: limit}
	slices.Reverse(kvs)
	v.Entries = s.b.lay.entries(req.Line, kvs, full)
	if slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return s.b.lay.isValued(req.Line, kv) }) {
		s.lines.setValued(req.Line)
	}
	if !full {
		err = s.detail(ctx, req, kvs, v)
	}
	return v, err
}

// freshLine reads a line, and its limit in the same transaction.
func (s *leased) freshLine(ctx context.Context, r *pb.RangeRequest, req driver.LookRequest) (resp *pb.RangeResponse, limit, rev int64, err error) {
	notBefore := max(req.NotBefore, req.Upto)
	if !req.Limit {
		resp, err = s.freshGet(ctx, r, notBefore)
		return resp, 0, resp.GetHeader().GetRevision(), err
	}
	key := s.b.lay.limit(req.Line)
	txn, err := s.freshTxn(ctx, []*pb.RangeRequest{r, whole(key)}, notBefore)
	if err != nil {
		return nil, 0, 0, err
	}
	limit, err = parseLimit(key, first(txn.Responses[1].GetResponseRange().Kvs))
	return txn.Responses[0].GetResponseRange(), limit, txn.Header.Revision, err
}

// freshGet reads what is not older than a revision, from any member if that can
// be, else from the cluster.
func (s *leased) freshGet(ctx context.Context, r *pb.RangeRequest, notBefore int64) (resp *pb.RangeResponse, err error) {
	err = s.fresh(ctx, notBefore, func(ctx context.Context, serializable bool) (rev int64, err error) {
		r.Serializable = serializable
		resp, err = s.b.kv.get(ctx, r)
		return resp.GetHeader().GetRevision(), err
	})
	return resp, err
}

// freshTxn is freshGet for several reads at one revision.
func (s *leased) freshTxn(ctx context.Context, rs []*pb.RangeRequest, notBefore int64) (resp *pb.TxnResponse, err error) {
	txn := &pb.TxnRequest{}
	for _, r := range rs {
		txn.Success = append(txn.Success, opGet(r))
	}
	err = s.fresh(ctx, notBefore, func(ctx context.Context, serializable bool) (rev int64, err error) {
		for _, r := range rs {
			r.Serializable = serializable
		}
		resp, err = s.b.kv.txn(ctx, txn)
		return resp.GetHeader().GetRevision(), err
	})
	return resp, err
}

// fresh reads until the answer is not older than a revision.
func (s *leased) fresh(
	ctx context.Context, notBefore int64, read func(ctx context.Context, serializable bool) (rev int64, err error),
) error {
	for n := range lookBehind + 1 {
		var rev int64
		err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
			rev, err = read(ctx, n < lookBehind)
			return err
		})
		if err != nil || rev >= notBefore {
			return err
		}
		// Events are told a moment before the member that tells them can be
		// read at their revision.
		driver.Sleep(ctx, s.b.clock, time.Millisecond)
	}
	return nil
}

// detail fills in what keys-only answers do not tell: of the foreign entries
// nearest to the place of interest, whether they have a lease; of our own, what
// those have become that were written since they were made. It reads at a
// revision not before that of the view. Of what it does not find, the view
// keeps what it has: that has gone in the meantime.
func (s *leased) detail(ctx context.Context, req driver.LookRequest, kvs []*mvccpb.KeyValue, v driver.View) error {
	near := len(kvs) - details
	if n := len(kvs); n > 0 && kvs[n-1].CreateRevision == req.Upto {
		near--
	}
	var rs []*pb.RangeRequest
	var which []int
	for i := len(kvs) - 1; i >= 0 && len(rs) < maxDetails; i-- {
		if s.b.lay.unclear(req.Line, kvs[i]) && (i >= near || !v.Entries[i].Foreign) {
			rs = append(rs, whole(string(kvs[i].Key)))
			which = append(which, i)
		}
	}
	if len(rs) == 0 {
		return nil
	}
	resp, err := s.freshTxn(ctx, rs, v.Rev)
	if err != nil {
		return err
	}
	for n, r := range resp.Responses {
		e := &v.Entries[which[n]]
		kv := first(r.GetResponseRange().Kvs)
		if kv != nil && kv.CreateRevision == e.Place {
			*e = s.b.lay.entry(req.Line, kv, true)
		}
	}
	return nil
}
