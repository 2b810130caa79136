package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// The record of a grant is a key beside the line, on the session's lease. Its value
// is the place of the entry and the time, because keys of entries are used again.
// It does not stand in the entry's own value: a write of the entry is an event to
// all that watch the line, and two writers of one value would have to take turns,
// where a release must wait for nothing.

// grant is the value of such a key.
func grant(ref driver.Ref, at time.Time) []byte {
	return fmt.Appendf(nil, "%d %d", ref.Place, at.UnixMilli())
}

// readGrant reads the value. It returns zero if the record is of another entry, or
// cannot be read.
func readGrant(ref driver.Ref, value []byte) time.Time {
	place, at, _ := strings.Cut(string(value), " ")
	if place != strconv.FormatInt(ref.Place, 10) {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Record implements driver.Session.
//
// What is sent is noted first. Whatever becomes of the request, the record goes
// with the entry: Leave deletes it, and after that a late request does not find
// the entry any more.
func (s *leased) Record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	ctx, done := s.bound(ctx)
	defer done()
	if err := s.record(ctx, ref, granted); err != nil {
		return fmt.Errorf("etcd: record the grant of %q: %w", ref.Line, err)
	}
	return nil
}

func (s *leased) record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	key, value := s.b.lay.granted(ref), grant(ref, granted)
	if s.lines.mine(s.b.lay, ref).granted == nil {
		s.lines.note(s.b.lay, ref, func(m *mine) { m.granted = value })
	} else {
		value = s.lines.mine(s.b.lay, ref).granted // the first call counts
	}
	resp, err := s.askFor(ctx, ref, &pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(ref.Key, ref.Place)},
		Success: []*pb.RequestOp{opPut(key, value, s.id)},
	})
	switch {
	case errors.Is(err, driver.ErrDenied):
		// A release that deleted the record would be refused too, and sent twice.
		s.lines.note(s.b.lay, ref, func(m *mine) { m.granted = nil })
		return err
	case err != nil:
		return err
	case !resp.Succeeded:
		return driver.ErrGone
	}
	return nil
}

// ungrant deletes the record of an entry that is gone, if there may be one. The key
// may have become another entry's.
func (s *leased) ungrant(ref driver.Ref) []*pb.RequestOp {
	value := s.lines.mine(s.b.lay, ref).granted
	if value == nil {
		return nil
	}
	key := s.b.lay.granted(ref)
	return []*pb.RequestOp{opTxn(&pb.TxnRequest{
		Compare: []*pb.Compare{holds(key, value)},
		Success: []*pb.RequestOp{opDelete(key)},
	})}
}

// maxGrants is how many records a refused try reads: that of a mutex is among them,
// and a thousand readers cost no more.
const maxGrants = 8

// someGrants reads the records of a line, a few if there are many.
func (l layout) someGrants(name string) *pb.RangeRequest {
	p := l.grants(name)
	return &pb.RangeRequest{Key: []byte(p), RangeEnd: prefixEnd(p), Limit: maxGrants}
}

// allGrants reads the records of a line.
func (l layout) allGrants(name string) *pb.RangeRequest {
	r := l.someGrants(name)
	r.Limit = 0
	return r
}

// grantOf returns since when an entry holds, by the records that were read; zero if
// it has none among them.
func (l layout) grantOf(e driver.Entry, kvs []*mvccpb.KeyValue) time.Time {
	if e.Foreign || len(kvs) == 0 {
		return time.Time{}
	}
	key := l.granted(e.Ref)
	// An answer stands in the order of keys.
	i, found := slices.BinarySearchFunc(kvs, key, func(kv *mvccpb.KeyValue, key string) int {
		return strings.Compare(string(kv.Key), key)
	})
	if !found {
		return time.Time{}
	}
	return readGrant(e.Ref, kvs[i].Value)
}
