package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// Read implements driver.Session. The keys come without values: those of an election can
// be long. What only values show is read afterwards, where the request wants it.
func (s *etcdSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.view(ctx, &req)
	if err != nil {
		return driver.View{}, fmt.Errorf("etcd: read %q: %w", req.Queue, err)
	}
	return v, nil
}

func (s *etcdSession) view(ctx context.Context, req *driver.ReadRequest) (driver.View, error) {
	q, floor, _ := s.lookup(req.Queue)
	if req.Fresh {
		floor = fresh
	}
	ranges := q.part(req)
	n := len(ranges)
	resps, rev, err := s.read(ctx, floor, append(ranges, q.asked(req.Records)...)...)
	if err != nil {
		return driver.View{}, err
	}
	v := driver.View{Count: -1, Complete: !resps[n-1].More}
	var kvs []*mvccpb.KeyValue
	for _, r := range resps[:n] {
		kvs = append(kvs, r.Kvs...)
	}
	switch {
	case req.Upto == 0:
		v.Count = int(resps[0].Count)
		s.saw(q, resps[0].Count)
	case v.Complete:
		v.Count = len(kvs)
	}
	if req.Upto != 0 {
		slices.Reverse(kvs)
	}
	v.Entries = q.entries(kvs)
	for _, r := range resps[n:] {
		q.records(&v, r)
	}
	s.remember(q, rev, kvs, v.Entries)
	return v, s.complete(ctx, q, rev, req, kvs, v.Entries)
}

// part returns the reads of the part of a queue that a request names. The entries from
// From to Upto are as many as they are, so those before them are a read of their own.
func (q *queue) part(req *driver.ReadRequest) []*pb.RangeRequest {
	r := below(q.prefix, int64(req.Nearest))
	if r.KeysOnly = true; req.Upto == 0 {
		return []*pb.RangeRequest{inOrder(r, pb.RangeRequest_ASCEND)}
	}
	inOrder(r, pb.RangeRequest_DESCEND).MaxCreateRevision = req.Upto
	switch {
	case req.Nearest == 0:
	case req.From == 0 || req.From >= req.Upto:
		r.Limit++ // the entry at Upto itself
	default:
		inside := inOrder(below(q.prefix, 0), pb.RangeRequest_DESCEND)
		inside.KeysOnly, inside.MaxCreateRevision, inside.MinCreateRevision = true, req.Upto, req.From
		r.MaxCreateRevision = req.From - 1
		return []*pb.RangeRequest{inside, r}
	}
	return []*pb.RangeRequest{r}
}

// chunk is how many entries one transaction reads with their values: etcd takes 128
// operations.
const chunk = 60

// complete adds to entries what only their values show, and with Detail what lies beside
// them. It reads at a revision not before that of the view, and leaves an entry as it is
// that has gone since: then its key can be another's.
func (s *etcdSession) complete(ctx context.Context, q *queue, rev int64, req *driver.ReadRequest, kvs []*mvccpb.KeyValue, es []driver.Entry) error {
	var which []int
	for i := range es {
		// Whether the entry of another program has a session is worth a request where
		// that entry may be what is waited for.
		near := req.Upto == 0 && i < 3 || req.Upto != 0 && i >= len(es)-4
		if req.Detail || es[i].Foreign && near || req.Marks && hides(&es[i], kvs[i]) {
			which = append(which, i)
		}
	}
	for part := range slices.Chunk(which, chunk) {
		var rs []*pb.RangeRequest
		for _, i := range part {
			rs = append(rs, whole([]byte(es[i].Key)), whole(q.detailKey(es[i].Key)))
		}
		resps, at, err := s.read(ctx, rev, rs...)
		if err != nil {
			return err
		}
		s.learn(q.name, at)
		for n, i := range part {
			e, kv := &es[i], first(resps[2*n])
			switch {
			case kv == nil || kv.CreateRevision != e.Place:
			case req.Detail:
				reveal(e, kv)
				e.Detail = first(resps[2*n+1]).GetValue()
			case e.Foreign:
				e.Unleased = kv.Lease == 0
			default:
				_, e.Marks = decodeMarks(kv.Value)
			}
		}
	}
	return nil
}

const (
	// memberTries is how many members are asked before the cluster as a whole.
	memberTries = 2
	// fresh is the floor of a read that must not be older than the call.
	fresh = 0
)

// read sends reads that are answered as of one revision, not before floor. Any member may
// answer from what it has, if that is new enough, which the answer's revision shows. The
// cluster answers what must be fresh, and what the session knows nothing of.
//
// If the cluster itself answers with an older revision, the store went back: a snapshot
// was restored. No place and no token of this session means anything any more.
func (s *etcdSession) read(ctx context.Context, floor int64, rs ...*pb.RangeRequest) (resps []*pb.RangeResponse, rev int64, err error) {
	n := 0
	if floor == fresh {
		n = memberTries
	}
	for ; ; n++ {
		for _, r := range rs {
			r.Serializable = n < memberTries
		}
		resps, rev, err = s.readOnce(ctx, rs)
		switch {
		case err != nil || rev >= floor:
			return resps, rev, err
		case n >= memberTries:
			s.lost(fmt.Errorf("%w: the store is at revision %d, and was at %d: a snapshot was restored", driver.ErrSessionOver, rev, floor))
			return nil, 0, s.send.Ended()
		}
		// Events are reported a moment before the member that reports them can be read
		// at their revision.
		driver.Sleep(ctx, s.b.rpc.Clock, time.Millisecond)
	}
}

// readOnce sends reads until they are answered. What has been compacted stays so.
func (s *etcdSession) readOnce(ctx context.Context, rs []*pb.RangeRequest) ([]*pb.RangeResponse, int64, error) {
	for t := (rpc.Try{}); ; {
		resps, rev, err := s.readTry(ctx, t, rs)
		if err == nil || errors.Is(err, rpctypes.ErrCompacted) {
			return resps, rev, err
		}
		if err := t.Again(ctx, s.send, err); err != nil {
			return nil, 0, err
		}
	}
}

func (s *etcdSession) readTry(ctx context.Context, t rpc.Try, rs []*pb.RangeRequest) ([]*pb.RangeResponse, int64, error) {
	if len(rs) == 1 {
		resp, err := rpc.Do(ctx, s.send, t, s.send.KV.Range, rs[0])
		return []*pb.RangeResponse{resp}, resp.GetHeader().GetRevision(), err
	}
	txn := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(rs))}
	for i, r := range rs {
		txn.Success[i] = opGet(r)
	}
	resp, err := rpc.Do(ctx, s.send, t, s.send.KV.Txn, txn)
	resps := make([]*pb.RangeResponse, len(resp.GetResponses()))
	for i, r := range resp.GetResponses() {
		resps[i] = r.GetResponseRange()
	}
	return resps, resp.GetHeader().GetRevision(), err
}

// namesPage is how many keys one read of Names brings.
const namesPage = 1000

// Names implements driver.Session. It reads page by page, so the answer is not of one
// moment. In LayoutConcurrency every key with a slash in it counts.
func (s *etcdSession) Names(ctx context.Context, prefix string) ([]string, error) {
	from := prefix
	if s.b.lay.kind == LayoutNative {
		from = s.b.lay.root + "/" + escape(prefix)
	}
	end := clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from, end = "\x00", "\x00" // all keys
	}
	names := []string{}
	for {
		resps, _, err := s.read(ctx, fresh, &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(end), KeysOnly: true, Limit: namesPage})
		if err != nil {
			return nil, fmt.Errorf("etcd: names with prefix %q: %w", prefix, err)
		}
		for _, kv := range resps[0].Kvs {
			name, next, ok := s.b.lay.queueOf(string(kv.Key))
			if ok && strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
			from = next
		}
		if !resps[0].More {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		names = slices.Compact(names)
	}
}
