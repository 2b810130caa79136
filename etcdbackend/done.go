package etcdbackend

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// The record of finished work is a key beside the queue, on no lease.

// Done implements driver.Session.
func (s *leased) Done(ctx context.Context, line string) ([]byte, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	kv, err := s.done(ctx, line)
	if err != nil {
		return nil, fmt.Errorf("etcd: read what is done in %q: %w", line, err)
	}
	return kv.GetValue(), nil
}

// done reads the key; nil if there is none.
func (s *leased) done(ctx context.Context, line string) (kv *mvccpb.KeyValue, err error) {
	err = s.b.ask(ctx, s.pace, func(ctx context.Context) error {
		resp, err := s.b.kv.get(ctx, whole(s.b.lay.done(line)))
		if err == nil {
			kv = first(resp.Kvs)
		}
		return err
	})
	return kv, err
}

// MarkDone implements driver.Session. It writes only over what it has read.
func (s *leased) MarkDone(ctx context.Context, ref driver.Ref, update func([]byte) []byte) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := s.markDone(ctx, ref, update); err != nil {
		return fmt.Errorf("etcd: mark as done in %q: %w", ref.Line, err)
	}
	return nil
}

func (s *leased) markDone(ctx context.Context, ref driver.Ref, update func([]byte) []byte) error {
	key := s.b.lay.done(ref.Line)
	for {
		kv, err := s.done(ctx, ref.Line)
		if err != nil {
			return err
		}
		record := update(kv.GetValue())
		switch {
		case record == nil:
			record = kv.GetValue() // what is left is to see that the entry is there
		case len(record) > driver.MaxDone:
			return fmt.Errorf("%w: a record of %d bytes, more than %d", driver.ErrRefused, len(record), driver.MaxDone)
		}
		change := []*pb.RequestOp{opPut(key, record, 0)}
		if bytes.Equal(record, kv.GetValue()) {
			change = nil
		}
		resp, err := s.askFor(ctx, ref, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, ref.Place), writtenAt(key, kv.GetModRevision())},
			Success: change,
			Failure: []*pb.RequestOp{opGet(keyOnly(ref.Key))},
		})
		switch {
		case errors.Is(err, errFull):
			// An attempt that was not answered may have done it, see classify.
			if kv, rerr := s.done(ctx, ref.Line); rerr == nil && bytes.Equal(kv.GetValue(), record) {
				return nil
			}
			return err
		case err != nil, resp.Succeeded:
			return err
		}
		if kv := first(resp.Responses[0].GetResponseRange().Kvs); kv == nil || kv.CreateRevision != ref.Place {
			return driver.ErrGone
		}
		// Another holder was faster, or it was an attempt of ours.
	}
}
