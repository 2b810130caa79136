package etcdstand

import (
	"bytes"
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/bench/stand"
)

// The kinds of requests, as the server sees them.
const (
	txn = iota
	read
	watchCreate
	watchCancel
	watchProgress
	other
)

func requestKinds() []string {
	return []string{"txn", "range", "watch create", "watch cancel", "watch progress", "other"}
}

// A counter counts what one client sends: each unary request, and each message on a stream. It
// is below the client's retries, so it counts them too.
type counter struct {
	*stand.Tally
	gate chan struct{} // bounds the unary requests under way; nil does not
}

// options returns the options of a client that counts.
func (c counter) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
	}
}

func (c counter) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	kind := other
	switch {
	case strings.HasSuffix(method, "KV/Txn"):
		kind = txn
	case strings.HasSuffix(method, "KV/Range"):
		if r, ok := req.(*pb.RangeRequest); !ok || !bytes.HasSuffix(r.Key, []byte("/%fence/0.0")) { // of a renewal
			kind = read
		}
	}
	if c.gate != nil {
		select {
		case c.gate <- struct{}{}:
			defer func() { <-c.gate }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.Request(kind)
	c.Begin()
	defer c.End()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c counter) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &countedStream{ClientStream: s, tally: c.Tally}, nil
}

// countedStream counts the messages to the server, and the events from it.
type countedStream struct {
	grpc.ClientStream
	tally *stand.Tally
}

// SendMsg counts before it sends, so that no answer can come first.
func (s *countedStream) SendMsg(m any) error {
	kind := other
	switch m := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		kind = stand.Keepalive
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
	s.tally.Request(kind)
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream. A message may contain several events.
func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.WatchResponse); ok && err == nil {
		s.tally.Event(len(r.Events))
	}
	return err
}
