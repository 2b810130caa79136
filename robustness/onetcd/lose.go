package onetcd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// The kinds of requests whose reply can be lost.
const (
	kindJoin    = "join"    // the transaction that makes an entry
	kindLook    = "look"    // a range, alone or several in a transaction
	kindWatch   = "watch"   // that a watch was created
	kindResolve = "resolve" // what settles a join whose reply was lost; loses that, too
	kindRenewal = "renewal"
	kindRelease = "release" // the deletion of an entry
)

const (
	methodWatch = "/etcdserverpb.Watch/Watch"
	methodRenew = "/etcdserverpb.Lease/LeaseKeepAlive"
)

// losses are the replies that are to be lost.
type losses struct {
	mu    sync.Mutex
	armed map[string][]*atomic.Bool
}

// Lose implements trial.Client.
func (n *network) Lose(kind string) func() bool {
	hit := n.losses.arm(kind)
	if kind == kindResolve {
		n.losses.arm(kindJoin)
	}
	return hit.Load
}

func (l *losses) arm(kind string) *atomic.Bool {
	hit := new(atomic.Bool)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.armed == nil {
		l.armed = map[string][]*atomic.Bool{}
	}
	l.armed[kind] = append(l.armed[kind], hit)
	return hit
}

// take says whether a reply to a request of this kind is to be lost now.
func (l *losses) take(kind string) (hit *atomic.Bool, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hits := l.armed[kind]
	if len(hits) == 0 {
		return nil, false
	}
	l.armed[kind] = hits[1:]
	return hits[0], true
}

// back undoes take, if the request was not carried out.
func (l *losses) back(kind string, hit *atomic.Bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed[kind] = slices.Insert(l.armed[kind], 0, hit)
}

// carriedOut bounds the waiting for a server whose reply is to be lost.
const carriedOut = 5 * time.Second

// lost breaks the client's connections, and returns what it is told of that.
func (n *network) lost(hit *atomic.Bool) error {
	n.Reset()
	hit.Store(true)
	return status.Error(codes.Unavailable, "the connection was reset by the trial")
}

// unary sees every request but renewals and watches.
func (n *network) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	kind := kindOf(req)
	hit, ok := n.losses.take(kind)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), carriedOut)
	defer cancel()
	if err := invoke(once, method, req, reply, cc, opts...); err != nil {
		n.losses.back(kind, hit)
		return err
	}
	return n.lost(hit)
}

// stream sees renewals and watches.
func (n *network) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	st, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: st, n: n, method: method}, nil
}

// stream is one whose replies can be lost.
type stream struct {
	grpc.ClientStream
	n      *network
	method string
	known  bool // where it goes
}

// RecvMsg implements grpc.ClientStream.
func (st *stream) RecvMsg(m any) error {
	if err := st.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if p, ok := peer.FromContext(st.Context()); ok && !st.known {
		st.known = true
		st.n.opened(st.method, p.Addr.String())
	}
	switch r := m.(type) {
	case *pb.WatchResponse:
		if !r.Created || r.Canceled {
			return nil
		}
		if hit, ok := st.n.losses.take(kindWatch); ok {
			return st.n.lost(hit)
		}
		st.n.started()
	case *pb.LeaseKeepAliveResponse:
		if hit, ok := st.n.losses.take(kindRenewal); ok {
			return st.n.lost(hit)
		}
	}
	return nil
}

// kindOf says what a request is for, "" if that does not matter.
func kindOf(req any) string {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return kindLook
	case *pb.DeleteRangeRequest:
		return kindRelease
	case *pb.TxnRequest:
		return kindOfTxn(r)
	}
	return ""
}

// kindOfTxn tells transactions apart by what they would do. Of Fairlock's, only a
// join has a fence for a condition, and only what settles one writes a fence; a
// release has a transaction inside for each entry, which deletes it. The stock mutex
// has one transaction, which puts a key.
func kindOfTxn(r *pb.TxnRequest) string {
	fenced := slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return isFence(c.Key) })
	var puts, fences bool
	for _, op := range r.Success {
		switch {
		case op.GetRequestPut() != nil && isFence(op.GetRequestPut().Key):
			fences = true
		case op.GetRequestPut() != nil:
			puts = puts || strings.HasPrefix(string(op.GetRequestPut().Key), stockRoot+"/")
		}
	}
	switch {
	case fences:
		return kindResolve
	case fenced || puts:
		return kindJoin
	case deletesEntry(r.Success):
		return kindRelease
	case onlyReads(r.Success):
		return kindLook
	}
	return ""
}

// deletesEntry looks into transactions inside too, at what they do if their conditions
// are met. Records are deleted for other reasons as well.
func deletesEntry(ops []*pb.RequestOp) bool {
	return slices.ContainsFunc(ops, func(op *pb.RequestOp) bool {
		if t := op.GetRequestTxn(); t != nil {
			return deletesEntry(t.Success)
		}
		p, ok := parse(string(op.GetRequestDeleteRange().GetKey()))
		return ok && !p.limit
	})
}

func isFence(key []byte) bool { return strings.HasPrefix(string(key), root+"/%fence/") }

func onlyReads(ops []*pb.RequestOp) bool {
	return !slices.ContainsFunc(ops, func(op *pb.RequestOp) bool { return op.GetRequestRange() == nil })
}
