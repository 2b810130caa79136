// Package rpc sends requests to etcd: each attempt has a time of its own, and what its
// error says is known.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// Client sends requests on the connection of an etcd client, with its login, its balance
// between endpoints, and its renewal of expired tokens. The requests are etcd's own
// messages: the client's builder copies every comparison twice, which with a server near
// by is a tenth of what a lock costs.
type Client struct {
	Clock driver.Clock
	Hint  string // which permission is needed, for errors: etcd does not name the key
	KV    pb.KVClient
	Lease pb.LeaseClient
	Watch pb.WatchClient

	// Options are those that the client uses: wait for a connection instead of failing
	// without one, and take long answers.
	Options []grpc.CallOption

	etcd   *clientv3.Client
	conn   *grpc.ClientConn
	leader metadata.MD // what clientv3.WithRequireLeader adds; never changed

	mu   sync.Mutex
	slow int       // how often the time of first attempts is doubled
	fell time.Time // when slow last became less
}

// New returns an error if a part of the client was replaced, such as by package
// namespace, which renames keys: requests go past those parts.
func New(c *clientv3.Client, clock driver.Clock) (*Client, error) {
	switch {
	case c == nil || c.ActiveConnection() == nil:
		return nil, errors.New("the client is nil or has no connection")
	case reflect.TypeOf(c.KV) != reflect.TypeOf(clientv3.NewKVFromKVClient(nil, nil)),
		reflect.TypeOf(c.Watcher) != reflect.TypeOf(clientv3.NewWatchFromWatchClient(nil, nil)),
		reflect.TypeOf(c.Lease) != reflect.TypeOf(clientv3.NewLeaseFromLeaseClient(nil, nil, 0)):
		return nil, errors.New("the client's KV, Watcher or Lease was replaced, and locks would not go through the replacement: " +
			"give the client itself, and use Options.Root for a prefix and gRPC interceptors to observe requests")
	}
	conn := c.ActiveConnection()
	return &Client{
		Clock: clock, KV: pb.NewKVClient(conn), Lease: pb.NewLeaseClient(conn), Watch: pb.NewWatchClient(conn), etcd: c, conn: conn,
		Options: []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32)},
		leader:  metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader),
	}, nil
}

// Endpoints returns the addresses of the servers.
func (c *Client) Endpoints() []string { return c.etcd.Endpoints() }

// requireLeader makes a member that was cut off refuse a request at once, instead of
// letting it time out. It is clientv3.WithRequireLeader, without a copy in the usual
// case.
func (c *Client) requireLeader(ctx context.Context) context.Context {
	if _, ok := metadata.FromOutgoingContext(ctx); ok {
		return clientv3.WithRequireLeader(ctx)
	}
	return metadata.NewOutgoingContext(ctx, c.leader)
}

// connected blocks while the client is known to have no connection, as the request
// would: it waits for one. But the client writes a warning to the user's log for each
// request that was given up, and none for a request that was not sent.
func (c *Client) connected(ctx context.Context) error {
	for {
		state := c.conn.GetState()
		if state != connectivity.Connecting && state != connectivity.TransientFailure {
			return nil
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// Sender sends the requests of one session, or of none. It is safe for concurrent use.
type Sender struct {
	*Client

	first   time.Duration // what an attempt may take, until all endpoints have had one
	slowest time.Duration // the most that slow answers to other requests make of it
	most    time.Duration // the most that any attempt may take
	over    chan struct{} // closed by End

	mu    sync.Mutex
	ended error                                 // why nothing is sent any more
	calls map[*context.CancelCauseFunc]struct{} // the attempts under way
}

// firstAttempt is how long an endpoint may take at first. A dead connection costs as
// much, and an Unlock, which has a second in all, must get to another endpoint.
const firstAttempt = 400 * time.Millisecond

// NewSender returns a Sender. Three attempts fit into window, so that one endpoint that
// is dead leaves time for others.
func (c *Client) NewSender(ttl, window time.Duration) *Sender {
	third := max(window/3, 200*time.Millisecond)
	return &Sender{
		Client: c, first: min(third, firstAttempt), slowest: min(third, 5*time.Second), most: max(ttl, third),
		over: make(chan struct{}), calls: make(map[*context.CancelCauseFunc]struct{}),
	}
}

// End makes all requests return the error, those under way too.
func (s *Sender) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}
	s.ended = err
	close(s.over)
	for cancel := range s.calls {
		(*cancel)(err)
	}
}

// Ended returns the error of End, nil before.
func (s *Sender) Ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// errLate is why an attempt is given up.
var errLate = errors.New("no answer in time")

// Method is a method of one of etcd's services.
type Method[Q, R any] = func(context.Context, Q, ...grpc.CallOption) (R, error)

// Ask makes attempts at a request that may be carried out more than once, until it is
// answered, cannot be, or ctx ends.
func Ask[Q, R any](ctx context.Context, s *Sender, m Method[Q, R], r Q) (R, error) {
	var t Try
	for {
		resp, err := Do(ctx, s, t, m, r)
		if err != nil {
			err = t.Again(ctx, s, err)
			if err == nil {
				continue
			}
		}
		return resp, err
	}
}

// Do makes one attempt at a request.
//
// Its timeout is not a deadline in the context, which would travel with the request and
// cost the server a timer. A request that is cancelled here is cancelled there too.
func Do[Q, R any](ctx context.Context, s *Sender, t Try, m Method[Q, R], r Q) (resp R, err error) {
	ctx, cancel := context.WithCancelCause(s.requireLeader(ctx))
	defer cancel(nil)
	if err := s.begin(&cancel); err != nil {
		return resp, err
	}
	timer := time.AfterFunc(s.timeout(t), func() { cancel(errLate) })
	sent := time.Now()
	if err = s.connected(ctx); err == nil {
		resp, err = m(ctx, r, s.Options...)
	}
	timer.Stop()
	s.mu.Lock()
	delete(s.calls, &cancel)
	s.mu.Unlock()
	if err == nil {
		s.answered(time.Since(sent), s.first)
	}
	return resp, rpctypes.Error(err)
}

func (s *Sender) begin(cancel *context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.calls[cancel] = struct{}{}
	}
	return s.ended
}

// maxDoublings bounds the doubling, far from an overflow.
const maxDoublings = 6

// timeout is twice as long whenever all endpoints have had their chance.
func (s *Sender) timeout(t Try) time.Duration {
	rounds := t.n / max(len(s.Endpoints()), 1)
	s.Client.mu.Lock()
	base := min(s.first<<s.slow, s.slowest)
	s.Client.mu.Unlock()
	return min(base<<min(rounds, maxDoublings), max(s.most, base))
}

// answered takes in how long an answer took: first attempts get twice that. With a
// service that has too much to do, or is far away, too short an attempt is none at all
// and leaves the service with more to do. The time falls slowly, because a few quick
// reads do not show how long a write will take. Renewals do not go by it: they are not
// given up for being slow.
func (c *Client) answered(took, first time.Duration) {
	n := min(bits.Len64(uint64(2*took/first)), maxDoublings) //nolint:gosec // no time is negative
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := time.Now(); {
	case n > c.slow:
		c.slow, c.fell = n, now
	case n < c.slow && now.Sub(c.fell) > first<<c.slow:
		c.slow, c.fell = c.slow-1, now
	}
}

// Try counts the attempts at one request.
type Try struct{ n, tokens int }

// First reports whether there was no attempt yet.
func (t Try) First() bool { return t.n == 0 }

// maxTokens is how often a request is sent again with a login that the client had to
// renew.
const maxTokens = 3

// Again waits before the next attempt, after one that ended with an error. It returns an
// error, in the contract's words, if there must be none.
func (t *Try) Again(ctx context.Context, s *Sender, last error) error {
	switch Classify(last) {
	case BadToken:
		if t.tokens++; t.tokens > maxTokens {
			return s.Explain(last)
		}
	case Denied, Refused, Full, SessionOver:
		return s.Explain(last)
	case Unknown, NotDone:
	}
	d := 5 * time.Millisecond << min(t.n, 6)
	t.n++
	select {
	case <-time.After(d/2 + rand.N(d)):
	case <-ctx.Done():
	case <-s.over:
	case <-s.etcd.Ctx().Done():
	}
	switch ended := s.Ended(); {
	case ended != nil:
		return ended
	case s.etcd.Ctx().Err() != nil:
		return ErrClientClosed
	case ctx.Err() == nil:
		return nil
	case Late(last):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w (last answer: %w)", driver.ErrUnavailable, context.Cause(ctx), last)
}
