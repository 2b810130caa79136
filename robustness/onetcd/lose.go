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
	kindLook    = "look"    // a read: a range, alone or several in a transaction
	kindWatch   = "watch"   // the creation of a watch
	kindResolve = "resolve" // the request that settles a join whose reply was lost; Lose loses that reply too
	kindRenewal = "renewal"
	kindRelease = "release" // the deletion of an entry
)

const (
	methodWatch = "/etcdserverpb.Watch/Watch"
	methodRenew = "/etcdserverpb.Lease/LeaseKeepAlive"
)

// losses are the replies that are to be lost, by kind.
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

// take reports whether the reply to the current request of this kind is to be lost.
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

// restore undoes take, if the server did not carry out the request.
func (l *losses) restore(kind string, hit *atomic.Bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed[kind] = slices.Insert(l.armed[kind], 0, hit)
}

// executeTimeout bounds how long a server may take to carry out a request whose reply is
// to be lost.
const executeTimeout = 5 * time.Second

// lost breaks the client's connections, and returns the error that the client gets instead
// of the reply.
func (n *network) lost(hit *atomic.Bool) error {
	n.Reset()
	hit.Store(true)
	return status.Error(codes.Unavailable, "the connection was reset by the trial")
}

// unary intercepts every request except renewals and watches.
func (n *network) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	kind := kindOf(req)
	hit, ok := n.losses.take(kind)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), executeTimeout)
	defer cancel()
	if err := invoke(once, method, req, reply, cc, opts...); err != nil {
		n.losses.restore(kind, hit)
		return err
	}
	return n.lost(hit)
}

// stream intercepts renewals and watches.
func (n *network) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	st, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: st, n: n, method: method}, nil
}

// stream is a stream whose replies can be lost.
type stream struct {
	grpc.ClientStream
	n      *network
	method string
	known  bool // network.opened was called
}

// RecvMsg implements grpc.ClientStream.
func (st *stream) RecvMsg(m any) error {
	if err := st.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	p, reached := peer.FromContext(st.Context())
	if reached && !st.known {
		st.known = true
		st.n.opened(st.method, p.Addr.String())
	}
	switch r := m.(type) {
	case *pb.WatchResponse:
		if !r.Created || r.Canceled {
			return nil
		}
		hit, ok := st.n.losses.take(kindWatch)
		if ok {
			return st.n.lost(hit)
		}
		st.n.allowAll()
	case *pb.LeaseKeepAliveResponse:
		hit, ok := st.n.losses.take(kindRenewal)
		if ok {
			return st.n.lost(hit)
		}
	}
	return nil
}

// kindOf returns the kind of a request, "" if its reply cannot be lost.
func kindOf(req any) string {
	switch r := req.(type) {
	case *pb.RangeRequest:
		if isFence(r.Key) { // of a renewal
			return ""
		}
		return kindLook
	case *pb.DeleteRangeRequest:
		return kindRelease
	case *pb.TxnRequest:
		return kindOfTxn(r)
	}
	return ""
}

// kindOfTxn distinguishes transactions by what they do if their conditions are met. Of
// Fairlock's, only a join and the request that settles it compare a fence, and only the latter
// puts one. A release contains a nested transaction for each entry, which deletes the entry. The
// stock mutex has one transaction, which puts a key.
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

// deletesEntry reports whether a transaction, or one nested in it, deletes an entry if its
// conditions are met. A deleted record does not count: other requests delete records too.
func deletesEntry(ops []*pb.RequestOp) bool {
	return slices.ContainsFunc(ops, func(op *pb.RequestOp) bool {
		t := op.GetRequestTxn()
		if t != nil {
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
