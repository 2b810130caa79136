package main

import (
	"context"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A kind of request, as the server sees it.
type requestKind int

const (
	txn requestKind = iota
	read
	watchCreate
	watchCancel
	watchProgress
	otherRequest
	keepalive // not on anybody's path: left out of sums
	requestKinds
)

func (k requestKind) String() string {
	return [...]string{"txn", "range", "watch create", "watch cancel", "watch progress", "other", "keepalive"}[k]
}

// A tally counts what one client sends: each unary request, and each message on
// a stream. It stands below the client's retries, so it counts these too.
type tally struct {
	sent [requestKinds]atomic.Int64
	gate chan struct{} // nil lets everything pass
}

// counts are how many requests of each kind.
type counts [requestKinds]int64

func (t *tally) now() counts {
	var c counts
	for k := range c {
		c[k] = t.sent[k].Load()
	}
	return c
}

// since returns what was counted after earlier.
func (c counts) since(earlier counts) counts {
	for k := range c {
		c[k] -= earlier[k]
	}
	return c
}

func (c counts) plus(o counts) counts {
	for k := range c {
		c[k] += o[k]
	}
	return c
}

// sum leaves out keepalives.
func (c counts) sum() int64 {
	total := int64(0)
	for k, n := range c {
		if requestKind(k) != keepalive {
			total += n
		}
	}
	return total
}

// options makes a client count.
func (t *tally) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(t.unary),
		grpc.WithChainStreamInterceptor(t.stream),
	}
}

func (t *tally) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	kind := otherRequest
	switch {
	case strings.HasSuffix(method, "KV/Txn"):
		kind = txn
	case strings.HasSuffix(method, "KV/Range"):
		kind = read
	}
	if t.gate != nil {
		select {
		case t.gate <- struct{}{}:
			defer func() { <-t.gate }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.sent[kind].Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (t *tally) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &countedStream{ClientStream: s, tally: t}, nil
}

// countedStream counts the messages to the server.
type countedStream struct {
	grpc.ClientStream
	tally *tally
}

// SendMsg counts before it sends, so that no answer can come first.
func (s *countedStream) SendMsg(m any) error {
	kind := otherRequest
	switch m := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		kind = keepalive
	case *pb.WatchRequest:
		switch m.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			kind = watchCreate
		case *pb.WatchRequest_CancelRequest:
			kind = watchCancel
		case *pb.WatchRequest_ProgressRequest:
			kind = watchProgress
		}
	}
	s.tally.sent[kind].Add(1)
	return s.ClientStream.SendMsg(m)
}
