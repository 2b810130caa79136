package etcdbackend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// reason is why connections do not come about. The client library keeps that to
// itself: it tries again, requests wait for that, and a login says only that time
// was up.
type reason struct {
	ask  func(context.Context) error
	stop context.CancelFunc
	done sync.WaitGroup
	last error // to be read after quiet
}

// poll is how often it is asked for. The library's attempts come less often.
const poll = time.Second

// reasonTime bounds one question: the library is about to know the reason while an
// attempt to connect is under way.
const reasonTime = 500 * time.Millisecond

// patience is how long a connection may take to come about before the reason is asked
// for. Most take much less.
const patience = 2500 * time.Millisecond

// listen begins to ask for the reason after patience, or when half of the time is over
// that ctx gives. It ends with ctx or quiet, which must be called.
func listen(ctx context.Context, ask func(context.Context) error) *reason {
	r := &reason{ask: ask}
	wait := patience
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.done.Go(func() {
		for {
			select {
			case <-time.After(wait):
				r.keep(r.ask(ctx))
				wait = poll
			case <-ctx.Done():
				return
			}
		}
	})
	return r
}

// keep takes in what one attempt ended with. A server refuses a client's
// certificate when that has finished its part of the handshake, and closes the
// connection: who is writing by then is told of a broken pipe, which says less.
func (r *reason) keep(err error) {
	if err != nil && (r.last == nil || !ofTLS(r.last) || ofTLS(err)) {
		r.last = err
	}
}

// ofTLS says that an error names what is wrong with a certificate.
func ofTLS(err error) bool { return strings.Contains(err.Error(), "tls:") }

// quiet ends the asking.
func (r *reason) quiet() {
	r.stop()
	r.done.Wait()
}

// told adds the reason to an error, after quiet.
func (r *reason) told(err error) error {
	if r.last == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, r.last)
}

// whyNot asks once, without waiting for a connection of the client's.
func (b *backend) whyNot(ctx context.Context) error {
	if b.knock != nil {
		if err := b.knock(ctx); err != nil {
			return err
		}
	}
	if !b.plain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	_, err := statusOf(ctx, b.client.ActiveConnection())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// statusOf asks a server for its status. It is a request like any other, but sent as
// a stream of one message: the client writes a warning to the user's log for each
// request that fails, and none for a stream.
func statusOf(ctx context.Context, conn *grpc.ClientConn) (*pb.StatusResponse, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, pb.Maintenance_Status_FullMethodName, grpc.WaitForReady(false))
	if err != nil {
		return nil, err //nolint:wrapcheck // it is the reason
	}
	if err := stream.SendMsg(&pb.StatusRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err //nolint:wrapcheck // as above
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	resp := &pb.StatusResponse{}
	return resp, stream.RecvMsg(resp) //nolint:wrapcheck // as above
}

// knock makes a connection to each endpoint in turn, until one fails: that says
// why. It sends nothing, so it hears what a server thinks of a certificate.
func (c DialConfig) knock(ctx context.Context) error {
	t, err := c.tlsConfig()
	if err != nil {
		return err
	}
	for _, endpoint := range c.Endpoints {
		scheme, addr, ok := strings.Cut(endpoint, "://")
		if !ok {
			addr = endpoint
		} else if !strings.HasPrefix(scheme, "http") {
			continue // a file
		}
		err := knockAt(ctx, addr, t)
		if late, ok := errors.AsType[net.Error](err); err != nil && !(ok && late.Timeout()) && ctx.Err() == nil {
			return err // that it took too long is known
		}
	}
	return nil
}

// alertTime is how long a server has to refuse a certificate. One that takes it
// waits for a request.
const alertTime = 200 * time.Millisecond

func knockAt(ctx context.Context, addr string, t *tls.Config) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err //nolint:wrapcheck // net's errors name the server
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // nobody waits for the answer any more
	defer stop()
	if t == nil {
		return nil
	}
	t = t.Clone()
	t.ServerName, _, _ = net.SplitHostPort(addr)
	t.NextProtos = []string{"h2"}
	secure := tls.Client(conn, t)
	if err := secure.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(alertTime)); err != nil {
		return nil // it is closed: nothing is known
	}
	if _, err := secure.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return nil
}
