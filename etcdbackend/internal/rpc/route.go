package rpc

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// routes has the connections that attempts go by. etcd's stubs use it instead of the client's
// connection, and it sends each request on the connection of its attempt.
//
// The connection of the client takes the endpoints in turns, for all requests of a program. So
// no request knows where it goes, and requests that come in the same rhythm as others
// can meet the same endpoint for ever: a learner, which refuses them, or a member that is cut off.
// The first attempt takes a turn, because that needs no further connection. Each later one goes to
// one endpoint by name: as many attempts as there are endpoints reach all of them.
type routes struct {
	etcd  *clientv3.Client
	turns *grpc.ClientConn // the client's own, which takes the endpoints in turns

	mu sync.Mutex

	// start is the index of the endpoint that the next request asks first by name: one that
	// has answered most recently, or the one behind it if that stopped answering.
	start int

	// named are the connections to one endpoint each, by its address. They are made when the
	// first attempt needs them, and stay until close, also if the client's endpoints change.
	named map[string]*grpc.ClientConn

	closed bool // no connection is made any more
}

func newRoutes(c *clientv3.Client) *routes {
	// Each program begins elsewhere: they all need another endpoint at the same moment.
	return &routes{etcd: c, turns: c.ActiveConnection(), start: rand.IntN(len(c.Endpoints())), named: make(map[string]*grpc.ClientConn)}
}

// route is where an attempt goes.
type route struct {
	attempt Attempt
	sent    time.Time // when it was sent: to wait for a connection is not to wait for an answer
}

type routeKey struct{}

// Route returns a context with which a request or a stream is sent to the endpoint of an attempt.
func Route(ctx context.Context, a Attempt) context.Context {
	if a.n == 0 {
		return ctx
	}
	return context.WithValue(ctx, routeKey{}, &route{attempt: a})
}

// Invoke implements grpc.ClientConnInterface.
func (r *routes) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	to, _ := ctx.Value(routeKey{}).(*route)
	conn, i, err := r.conn(ctx, to)
	if err == nil {
		if to != nil {
			to.sent = time.Now()
		}
		err = conn.Invoke(ctx, method, args, reply, opts...) //nolint:wrapcheck // it is grpc's method
	}
	if conn != r.turns {
		r.prefer(i, err)
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (r *routes) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	to, _ := ctx.Value(routeKey{}).(*route)
	conn, _, err := r.conn(ctx, to)
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...) //nolint:wrapcheck // it is grpc's method
}

// prefer records whether the i-th endpoint answers, so that the next request which needs another
// endpoint begins with one that does. An error that shows that the endpoint is well, such as a
// missing permission, changes nothing.
func (r *routes) prefer(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.start = i
	case r.start == i && (Classify(err) == Unknown || Classify(err) == NotDone):
		r.start = (i + 1) % len(r.etcd.Endpoints())
	}
}

// conn returns the connection for an attempt and the index of its endpoint. It blocks while the
// endpoint is being connected, and returns an error if that fails.
func (r *routes) conn(ctx context.Context, to *route) (*grpc.ClientConn, int, error) {
	if to == nil {
		return r.turns, 0, nil
	}
	conn, i := r.pick(to.attempt)
	if conn == r.turns {
		return conn, i, connected(ctx, conn)
	}
	conn.Connect()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.TransientFailure, connectivity.Shutdown:
			return conn, i, status.Errorf(codes.Unavailable, "no connection to %s", conn.Target())
		case connectivity.Connecting, connectivity.Idle:
			if !conn.WaitForStateChange(ctx, state) {
				return conn, i, status.FromContextError(ctx.Err()).Err()
			}
		case connectivity.Ready:
			return conn, i, nil
		}
	}
}

// pick returns the connection to the endpoint whose turn it is. It passes over those that are known
// to be out of reach. If there is none, or only one endpoint, it returns that of the client.
//
// A connection that is only being made is not passed over: nothing is known of its endpoint yet,
// and the attempt waits for it, up to its timeout.
func (r *routes) pick(a Attempt) (*grpc.ClientConn, int) {
	eps := r.etcd.Endpoints()
	if len(eps) < 2 {
		return r.turns, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range eps {
		i := (a.start + a.n - 1 + n) % len(eps)
		conn := r.dial(eps, i)
		if conn != nil && conn.GetState() != connectivity.TransientFailure {
			return conn, i
		}
	}
	return r.turns, 0
}

// dial returns the connection to the i-th endpoint, nil if there can be none. Like the connection
// of the client, it has the credentials that the first endpoint needs: "http://" among endpoints
// with TLS does not turn that off.
func (r *routes) dial(eps []string, i int) *grpc.ClientConn {
	name := eps[i]
	scheme, _, _ := strings.Cut(eps[0], "//")
	host, plain := strings.CutPrefix(name, "http://")
	if plain && scheme != "http:" {
		name = host
		if scheme == "https:" {
			name = "https://" + host
		}
	}
	conn := r.named[name]
	if conn != nil || r.closed {
		return conn
	}
	conn, err := r.etcd.Dial(name)
	if err != nil {
		return nil
	}
	r.named[name] = conn
	return conn
}

// close closes the connections that are not the client's.
func (r *routes) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for name, conn := range r.named {
		_ = conn.Close() // it fails only if it is closed already
		delete(r.named, name)
	}
}

// connected blocks while a connection is known to be none. The request would wait for one too,
// but the client writes a warning to the user's log for each request that was given up.
func connected(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		if state != connectivity.Connecting && state != connectivity.TransientFailure {
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
