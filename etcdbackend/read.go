package etcdbackend

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// reader reads queues. What it returns has been learned: no later read of the same queue
// will be older.
type reader struct {
	cluster *cluster
	queues  *queues
}

// view reads part of a queue. The keys come without values, because those of an election
// can be long. What only values show is read afterwards, where the request wants it. Keys and
// records are of one moment, because they are read in one transaction.
func (r *reader) view(ctx context.Context, req *driver.ReadRequest) (driver.View, error) {
	q, floor := r.queues.lookup(req.Queue)
	if req.Fresh {
		floor = fresh
	}
	ranges := q.part(req)
	n := len(ranges)
	resps, rev, err := r.cluster.read(ctx, floor, append(ranges, q.namedRecords(req.Records)...)...)
	if err != nil {
		return driver.View{}, err
	}
	v := driver.View{Count: -1, Complete: !resps[n-1].More} // the last range ends the part
	var kvs []*mvccpb.KeyValue
	for _, a := range resps[:n] {
		kvs = append(kvs, a.Kvs...)
	}
	switch {
	case req.Upto == 0:
		v.Count = int(resps[0].Count)
		r.queues.count(q.name, resps[0].Count)
	case v.Complete:
		v.Count = len(kvs)
	}
	if req.Upto != 0 {
		slices.Reverse(kvs)
	}
	v.Entries = q.entries(kvs)
	for _, a := range resps[n:] {
		q.addRecords(&v, a)
	}
	r.queues.remember(q.name, rev, kvs, v.Entries)
	return v, r.complete(ctx, q, rev, req, kvs, v.Entries)
}

// part returns the reads of the part of a queue that a request names:
//
//	Upto 0                        the first Nearest entries, ascending
//	Nearest 0                     all up to Upto, descending, as below
//	From 0, or not before Upto    the entry at Upto and the Nearest ones before it
//	From before Upto              those from From to Upto, as many as they are; and in a
//	                              read of its own, the Nearest ones before From
//
// A limit of 0 means none, for etcd as for the request.
func (q *queue) part(req *driver.ReadRequest) []*pb.RangeRequest {
	r := below(q.prefix, int64(req.Nearest))
	r.KeysOnly = true
	if req.Upto == 0 {
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

// namedRecords returns reads of the records that a request names. A name that ends in a slash
// is that of a folder, and stands for all records in it.
func (q *queue) namedRecords(names []string) []*pb.RangeRequest {
	rs := make([]*pb.RangeRequest, len(names))
	for i, name := range names {
		rs[i] = withValue([]byte(q.side + name))
		if strings.HasSuffix(name, "/") {
			rs[i] = below(q.side+name, 0)
		}
	}
	return rs
}

// addRecords adds the records of an answer to those of a view.
func (q *queue) addRecords(v *driver.View, r *pb.RangeResponse) {
	if v.Records == nil {
		v.Records = make(map[string]driver.Record)
	}
	for _, kv := range r.Kvs {
		v.Records[string(kv.Key[len(q.side):])] = record(kv)
	}
}

// chunk is how many entries one transaction reads with their values, or how many keys it
// deletes: etcd takes 128 operations.
const chunk = 60

// complete adds to entries what only their values show, and with Detail what is kept next
// to them. It reads at a revision not before that of the view. An entry that has gone
// since stays as it is: its key can be another's by then.
//
// Which entries are read, and for what:
//
//	with Detail                 each           value, session and detail
//	with Marks                  those that hide their marks, see hides
//	of other programs, if near  whether they have a session: one without blocks the queue
//	                            until an operator acts, and the waiter reports that
func (r *reader) complete(ctx context.Context, q *queue, rev int64, req *driver.ReadRequest, kvs []*mvccpb.KeyValue, es []driver.Entry) error {
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
			rs = append(rs, withValue([]byte(es[i].Key)), withValue(q.detailKey(es[i].Key)))
		}
		resps, at, err := r.cluster.read(ctx, rev, rs...)
		if err != nil {
			return err
		}
		r.queues.learn(q.name, at)
		for n, i := range part {
			e, kv := &es[i], head(resps[2*n])
			switch {
			case kv == nil || kv.CreateRevision != e.Place:
			case req.Detail:
				reveal(e, kv)
				e.Detail = head(resps[2*n+1]).GetValue()
			case e.Foreign:
				e.Unleased = kv.Lease == 0
			default:
				_, e.Marks = decodeMarks(kv.Value)
			}
		}
	}
	return nil
}

// states reads entries whose watch has begun, as they are at a revision or later. It is what
// a Hub reads where the events alone do not show whether an entry is there.
func (r *reader) states(ctx context.Context, refs []driver.Ref, rev int64) ([]watch.State, error) {
	rs := make([]*pb.RangeRequest, len(refs))
	for i, ref := range refs {
		rs[i] = withValue([]byte(ref.Key))
		rs[i].KeysOnly = strings.HasSuffix(ref.Key, valuedSuffix)
	}
	resps, at, err := r.cluster.read(ctx, rev, rs...)
	if err != nil {
		return nil, err
	}
	states := make([]watch.State, len(refs))
	for i, a := range resps {
		states[i].Rev = at
		kv := head(a)
		if kv != nil && kv.CreateRevision == refs[i].Place {
			states[i].There, states[i].Marks = true, marksOf(kv)
		}
	}
	return states, nil
}

// namesPage is how many keys one read of names brings.
const namesPage = 1000

// names returns the names of queues. It reads page by page, so the answer is not of one
// moment: a queue that is never empty is in it, and one that comes or goes meanwhile may be.
// In LayoutConcurrency every key with a slash in it counts.
func (r *reader) names(ctx context.Context, prefix string) ([]string, error) {
	lay, from := r.queues.lay, prefix
	if lay.kind == LayoutNative {
		from = lay.root + "/" + escape(prefix)
	}
	end := clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from, end = "\x00", "\x00" // all keys
	}
	names := []string{}
	for {
		resps, _, err := r.cluster.read(ctx, fresh, &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(end), KeysOnly: true, Limit: namesPage})
		if err != nil {
			return nil, err
		}
		for _, kv := range resps[0].Kvs {
			name, next, ok := lay.queueOf(string(kv.Key))
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
