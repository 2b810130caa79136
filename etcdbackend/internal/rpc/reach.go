package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	reachPause = 50 * time.Millisecond // between two attempts of Reach
	reachTime  = time.Second           // the timeout of one
)

// Reach returns nil when a server answers. If none does until ctx ends, it returns an
// error that wraps driver.ErrUnavailable, with the endpoints and the reason that gRPC
// knows: a certificate that is not accepted, a connection that is refused. A request would
// wait for a connection, and learn no reason. If the server is older than 3.4, the error
// wraps driver.ErrRefused.
func (c *Client) Reach(ctx context.Context) error {
	version, err := c.version(ctx)
	if err != nil {
		return fmt.Errorf("%w: no answer from %s: %w", driver.ErrUnavailable, strings.Join(c.Endpoints(), ", "), err)
	}
	// The patch release is not checked: the answer is that of one member, and a cluster is
	// updated one member after another. docs/operations.md names the minimum.
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	if n == 2 && (major < 3 || major == 3 && minor < 4) {
		return fmt.Errorf("%w: the server is etcd %s; 3.4 or newer is required", driver.ErrRefused, version)
	}
	return nil
}

// version returns the version of the first server that answers, "" if the answer does not
// contain it. The error is the reason that explains most: that of a certificate, else the
// newest one.
func (c *Client) version(ctx context.Context) (version string, err error) {
	var reason error
	for {
		resp, err := c.status(ctx)
		switch {
		case err == nil:
			return resp.Version, nil
		case c.etcd.Ctx().Err() != nil:
			return "", ErrClientClosed
		case status.Code(err) == codes.Unavailable:
			// A server that refuses a certificate closes the connection. Then a later
			// attempt can fail with a broken pipe, which explains less.
			if reason == nil || !strings.Contains(reason.Error(), "tls:") {
				reason = err
			}
		case !Late(err):
			return "", nil // a server has answered; perhaps a permission is missing
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
	stream, err := c.routes.turns.NewStream(ctx, &grpc.StreamDesc{}, pb.Maintenance_Status_FullMethodName, grpc.WaitForReady(false))
	if err != nil {
		return nil, err
	}
	err = stream.SendMsg(&pb.StatusRequest{})
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg returns the reason
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	resp := &pb.StatusResponse{}
	return resp, stream.RecvMsg(resp)
}
