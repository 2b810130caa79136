package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// A limit is a decimal number in a key beside the line, on no lease. A join
// with a limit has the condition that it is there, so in the usual case it
// costs no round trip.

// formatLimit is the value of a limit's key.
func formatLimit(limit int64) []byte { return strconv.AppendInt(nil, limit, 10) }

// parseLimit reads a limit's key, 0 if there is none. It accepts only what
// formatLimit writes, since conditions compare the bytes.
func parseLimit(key string, kv *mvccpb.KeyValue) (int64, error) {
	if kv == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil || n < 1 || string(formatLimit(n)) != string(kv.Value) {
		return 0, fmt.Errorf("%w: key %q must contain a limit but contains %.40q", driver.ErrRefused, key, kv.Value)
	}
	return n, nil
}

// Limit implements driver.Backend.
func (b *backend) Limit(ctx context.Context, name string) (int64, error) {
	limit, _, err := b.readLimit(ctx, b.pace(), name)
	if err != nil {
		return 0, fmt.Errorf("etcd: limit of %q: %w", name, err)
	}
	return limit, nil
}

// readLimit also tells when the limit was written, 0 if there is none.
func (b *backend) readLimit(ctx context.Context, p pace, name string) (limit, written int64, err error) {
	key := b.lay.limit(name)
	var kv *mvccpb.KeyValue
	err = b.ask(ctx, p, func(ctx context.Context) error {
		resp, err := b.kv.get(ctx, whole(key))
		if err == nil {
			kv = first(resp.Kvs)
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	limit, err = parseLimit(key, kv)
	return limit, kv.GetModRevision(), err
}

// SetLimit implements driver.Session. It writes only over what it has read, or
// a request that was given up would undo a later one when it comes.
func (s *leased) SetLimit(ctx context.Context, line string, limit int64) error {
	if err := s.setLimit(ctx, line, limit); err != nil {
		return fmt.Errorf("etcd: set the limit of %q to %d: %w", line, limit, err)
	}
	return nil
}

func (s *leased) setLimit(ctx context.Context, line string, limit int64) error {
	if limit < 1 {
		return fmt.Errorf("%w: a limit is at least 1", driver.ErrRefused)
	}
	ctx, done := s.bound(ctx)
	defer done()
	key := s.b.lay.limit(line)
	for {
		was, written, err := s.b.readLimit(ctx, s.pace, line)
		switch {
		case err != nil && written == 0:
			return err
		case was == limit:
			return nil
		}
		// A broken limit is mended by this.
		resp, err := s.ask(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{writtenAt(key, written)},
			Success: []*pb.RequestOp{opPut(key, formatLimit(limit), 0)},
		})
		switch {
		case errors.Is(err, errFull):
			// It may be done all the same, see classify.
			if was, _, rerr := s.b.readLimit(ctx, s.pace, line); rerr == nil && was == limit {
				return nil
			}
			return err
		case err != nil:
			return err
		case resp.Succeeded:
			return nil
		}
		// Somebody was faster, or it was an attempt of ours.
	}
}
