package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

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
	// lookBehind is how often a member that lags is asked before the cluster.
	lookBehind = 3
)

// Look implements driver.Session.
func (s *leased) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	depth, known := s.lines.depth(req.Line)
	v, err := s.look(ctx, req, known && depth <= fullDepth)
	if err != nil {
		return driver.View{}, fmt.Errorf("etcd: look at %q: %w", req.Line, err)
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
	resp, err := s.freshGet(ctx, r, max(req.NotBefore, req.Upto))
	if err != nil {
		return driver.View{}, err
	}
	s.lines.setDepth(req.Line, resp.Count)
	kvs := resp.Kvs
	// The limit has room for the own entry; if that is gone, one more came.
	if n := len(kvs); req.Nearest > 0 && n > req.Nearest && kvs[0].CreateRevision != req.Upto {
		kvs = kvs[:req.Nearest]
	}
	v := driver.View{Rev: resp.Header.Revision, Complete: !resp.More && len(kvs) == len(resp.Kvs)}
	v.Entries = s.b.lay.entries(req.Line, kvs, full)
	slices.Reverse(v.Entries)
	if !full {
		err = s.detail(ctx, req, v.Entries)
	}
	return v, err
}

// freshGet reads what is not older than a revision, from any member if that can
// be, else from the cluster.
func (s *leased) freshGet(ctx context.Context, r *pb.RangeRequest, notBefore int64) (resp *pb.RangeResponse, err error) {
	for n := range lookBehind + 1 {
		r.Serializable = n < lookBehind
		err = s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
			resp, err = s.b.kv.get(ctx, r)
			return err
		})
		if err != nil || resp.Header.Revision >= notBefore {
			break
		}
		// Events are told a moment before the member that tells them can be
		// read at their revision.
		driver.Sleep(ctx, s.b.clock, time.Millisecond)
	}
	return resp, err
}

// detail fills in what keys-only answers do not tell of the entries nearest to
// the place of interest, if they are foreign: the names of our own tell their
// lease. What it does not find has gone in the meantime.
func (s *leased) detail(ctx context.Context, req driver.LookRequest, es []driver.Entry) error {
	if n := len(es); n > 0 && es[n-1].Place == req.Upto {
		es = es[:n-1] // the own entry is known
	}
	es = es[max(0, len(es)-details):]
	var unknown []*driver.Entry
	r := &pb.TxnRequest{}
	for i := range es {
		if es[i].Foreign {
			unknown = append(unknown, &es[i])
			r.Success = append(r.Success, opGet(&pb.RangeRequest{Key: []byte(es[i].Key), Serializable: true}))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	var resp *pb.TxnResponse
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		resp, err = s.b.kv.txn(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range resp.Responses {
		kv := first(r.GetResponseRange().Kvs)
		if kv != nil && kv.CreateRevision == unknown[i].Place {
			*unknown[i] = s.b.lay.entry(req.Line, kv, true)
		}
	}
	return nil
}
