package etcdbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// A number is a key beside the line, on the session's lease, whose value names
// the entry that has it.

// owner is the value of a number's key.
func owner(ref driver.Ref) []byte {
	return []byte(strconv.FormatInt(ref.Place, 10) + " " + ref.Key)
}

// parseOwner reads it.
func parseOwner(value []byte) (key string, place int64, ok bool) {
	p, key, ok := strings.Cut(string(value), " ")
	place, err := strconv.ParseInt(p, 10, 64)
	return key, place, ok && err == nil
}

// parseNumber reads what a number's key ends with. It accepts only what key
// writes.
func parseNumber(s string) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == s
}

// claim is one request for a number.
type claim struct {
	s   *leased
	ref driver.Ref
}

// Claim implements driver.Session. It asks for 0 without having looked; if that
// is taken, the answer shows all that are.
func (s *leased) Claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	for n, token := range s.lines.mine(s.b.lay, ref).numbers {
		if token != 0 {
			return driver.Number{N: n, Token: token}, nil
		}
	}
	ctx, done := s.bound(ctx)
	defer done()
	got, err := claim{s: s, ref: ref}.run(ctx)
	if err != nil {
		return driver.Number{}, fmt.Errorf("etcd: claim a slot of %q: %w", ref.Line, err)
	}
	s.lines.note(s.b.lay, ref, func(m *mine) { m.numbers[got.n] = got.token })
	return driver.Number{N: got.n, Token: got.token}, nil
}

func (c claim) run(ctx context.Context) (claimed, error) {
	got, err := c.take(ctx, 0, nil, &pb.TxnRequest{})
	for err == nil && got.n < 0 {
		got, err = c.lowest(ctx, got.taken)
	}
	return got, err
}

// lowest asks for the lowest number that is not taken, and whether those who
// have the lower ones live. A key whose entry has gone without it, because
// somebody deleted that by hand, is free.
func (c claim) lowest(ctx context.Context, taken map[int]*mvccpb.KeyValue) (claimed, error) {
	free := 0
	for taken[free] != nil {
		free++
	}
	var below []int
	r := &pb.TxnRequest{}
	for n := range min(free, maxOwners) {
		// Whatever else stands there has no owner who could be gone, and may be no
		// key that etcd lets be asked for.
		key, _, ok := parseOwner(taken[n].Value)
		if _, entry := c.s.b.lay.parse(driver.Ref{Line: c.ref.Line, Key: key}); ok && entry {
			below = append(below, n)
			r.Success = append(r.Success, opGet(keyOnly(key)))
		}
	}
	got, err := c.take(ctx, free, nil, r)
	if err != nil || got.n != free || len(got.owners) != len(below) {
		return got, err
	}
	for i, n := range below {
		_, place, _ := parseOwner(taken[n].Value)
		kv := first(got.owners[i].GetResponseRange().Kvs)
		if kv != nil && kv.CreateRevision == place {
			continue
		}
		back := &pb.TxnRequest{Success: []*pb.RequestOp{opDelete(c.key(free))}}
		if lower, err := c.take(ctx, n, taken[n], back); err != nil || lower.n >= 0 {
			return lower, err
		}
	}
	return got, nil
}

// maxOwners bounds a transaction. Whoever has a higher number is taken to live.
const maxOwners = 100

// claimed is the answer to a request for a number.
type claimed struct {
	n      int // -1 if it is taken
	token  int64
	taken  map[int]*mvccpb.KeyValue
	owners []*pb.ResponseOp // the answers to what else was asked for
}

func (c claim) key(n int) string { return c.s.b.lay.numbers(c.ref.Line) + strconv.Itoa(n) }

// take takes a number that is free, or that was last written for an entry that
// is gone, and does what r says with it.
//
// That it was asked for is noted first. Whatever becomes of the request, the
// number goes with the entry: Leave gives it back, and after that a late
// request does not find the entry any more.
func (c claim) take(ctx context.Context, n int, was *mvccpb.KeyValue, r *pb.TxnRequest) (claimed, error) {
	c.s.lines.note(c.s.b.lay, c.ref, func(m *mine) {
		if m.numbers == nil {
			m.numbers = make(map[int]int64, 1)
		}
		m.numbers[n] = 0
	})
	p := c.s.b.lay.numbers(c.ref.Line)
	r.Compare = []*pb.Compare{createdAt(c.ref.Key, c.ref.Place), writtenAt(c.key(n), was.GetModRevision())}
	r.Success = append(r.Success, opPut(c.key(n), owner(c.ref), c.s.id))
	r.Failure = []*pb.RequestOp{
		opGet(keyOnly(c.ref.Key)),
		opGet(&pb.RangeRequest{Key: []byte(p), RangeEnd: prefixEnd(p)}),
	}
	resp, err := c.s.askFor(ctx, c.ref, r)
	switch {
	case err != nil:
		return claimed{}, err
	case resp.Succeeded:
		return claimed{n: n, token: resp.Header.Revision, owners: resp.Responses[:len(resp.Responses)-1]}, nil
	}
	kv := first(resp.Responses[0].GetResponseRange().Kvs)
	if kv == nil || kv.CreateRevision != c.ref.Place {
		return claimed{}, driver.ErrGone
	}
	got := claimed{n: -1, taken: make(map[int]*mvccpb.KeyValue)}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		n, ok := parseNumber(string(kv.Key[len(p):]))
		switch {
		case !ok:
		case string(kv.Value) == string(owner(c.ref)):
			return claimed{n: n, token: kv.ModRevision}, nil // by an attempt that was not answered
		default:
			got.taken[n] = kv
		}
	}
	return got, nil
}

// unclaim gives back what numbers an entry may have. Each may as well have
// become another's.
func (s *leased) unclaim(ref driver.Ref) []*pb.RequestOp {
	var ops []*pb.RequestOp
	for n := range s.lines.mine(s.b.lay, ref).numbers {
		key := s.b.lay.numbers(ref.Line) + strconv.Itoa(n)
		ops = append(ops, opTxn(&pb.TxnRequest{
			Compare: []*pb.Compare{holds(key, owner(ref))},
			Success: []*pb.RequestOp{opDelete(key)},
		}))
	}
	return ops
}
