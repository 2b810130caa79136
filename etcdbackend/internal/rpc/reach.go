package rpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reachPause is the time between two attempts of Reach, and reachTime that of an attempt.
const (
	reachPause = 50 * time.Millisecond
	reachTime  = time.Second
)

// Reach returns when a server answers, with its version, "" if that is not known. If none
// does until ctx ends, the error is the reason, as gRPC knows it: a certificate that is
// not accepted, a connection that is refused. A request would wait for a connection, and
// learn no reason.
func (c *Client) Reach(ctx context.Context) (version string, err error) {
	var reason error
	for {
		resp, err := c.status(ctx)
		switch {
		case err == nil:
			return resp.Version, nil
		case c.etcd.Ctx().Err() != nil:
			return "", ErrClientClosed
		case status.Code(err) == codes.Unavailable:
			// A server that refuses a certificate closes the connection: then a reason can
			// also be a broken pipe, which says less.
			if reason == nil || !strings.Contains(reason.Error(), "tls:") {
				reason = err
			}
		case !Late(err):
			return "", nil // it is there; perhaps a permission is missing
		}
		select {
		case <-time.After(reachPause):
		case <-ctx.Done():
			if reason == nil {
				reason = context.Cause(ctx)
			}
			return "", reason
		}
	}
}

// status asks a server for its status. It is a request like any other, but sent as a
// stream of one message: the client writes a warning to the user's log for each request
// that fails, and none for a stream.
func (c *Client) status(ctx context.Context) (*pb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{}, pb.Maintenance_Status_FullMethodName, grpc.WaitForReady(false))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&pb.StatusRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	resp := &pb.StatusResponse{}
	return resp, stream.RecvMsg(resp)
}
