// Package rpc sends requests to etcd. Each attempt has a timeout of its own, and its error
// is classified by what it proves: done, not done, or unknown.
//
// The client's own methods are not used for three reasons. They send a request again by
// themselves, so that an answer does not show which attempt it is of. They wait for as long as
// the context lets them, also on a connection that is dead. And they do not show which endpoint
// they ask, so that the next attempt cannot go to another one.
//
// Who makes attempts:
//
//	Send   one attempt: for a request that must not be carried out twice, and whose caller
//	       finds out what became of it
//	Ask    attempts until one is answered: for reads, and for what may be done twice
//	Route  a stream, whose user has timeouts of its own
//
// Between two attempts, Attempt.Again decides from the error whether there may be another one,
// waits, and makes it go to another endpoint.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

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
	// without one, and take long answers. They are never changed.
	Options []grpc.CallOption

	etcd   *clientv3.Client
	routes *routes     // where attempts go; nil in tests that send nothing
	leader metadata.MD // what clientv3.WithRequireLeader adds; never changed

	mu sync.Mutex

	// slow is how often the timeout of first attempts is doubled, because answers take long: 0
	// to maxDoublings. It rises at once and falls by one at a time, see measured. changed is
	// when it last changed.
	slow    int
	changed time.Time
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
	r := newRoutes(c)
	return &Client{
		Clock: clock, KV: pb.NewKVClient(r), Lease: pb.NewLeaseClient(r), Watch: pb.NewWatchClient(r), etcd: c, routes: r,
		Options: []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32)},
		leader:  metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader),
	}, nil
}

// Close closes the connections that the client does not close itself. Senders must have ended.
func (c *Client) Close() { c.routes.close() }

// Endpoints returns the addresses of the servers. It is a copy each time, and can change.
func (c *Client) Endpoints() []string { return c.etcd.Endpoints() }

// requireLeader makes a member that has no leader refuse a request at once, instead of
// letting it time out. It is clientv3.WithRequireLeader, without a copy of the metadata in
// the usual case.
func (c *Client) requireLeader(ctx context.Context) context.Context {
	_, ok := metadata.FromOutgoingContext(ctx)
	if ok {
		return clientv3.WithRequireLeader(ctx)
	}
	return metadata.NewOutgoingContext(ctx, c.leader)
}

// Sender sends the requests of one session, or of none. It is safe for concurrent use.
//
// The timeouts of attempts, with three endpoints, a TTL of 15 s and quick answers: 400 ms for
// each of the first three, then 800 ms for each, and so on up to the TTL. See timeout.
type Sender struct {
	*Client

	// Invariant: base <= slowest <= most.
	base    time.Duration // the timeout until all endpoints have had an attempt, if answers are quick
	slowest time.Duration // the most that base is raised to because answers are slow
	most    time.Duration // the most that any attempt may take

	ctx    context.Context // ends with End, and when the client is closed; its cause is why
	end    context.CancelCauseFunc
	unbind func() bool // from the client
}

// firstAttempt is the timeout of a first attempt, unless the window is short. A dead connection costs this time, and an
// Unlock, which has 1 s in all, must still reach another endpoint.
const firstAttempt = 400 * time.Millisecond

// NewSender returns a Sender. Its user must call End. Three first attempts fit into window,
// so that a dead endpoint leaves time for others.
func (c *Client) NewSender(ttl, window time.Duration) *Sender {
	third := max(window/3, 200*time.Millisecond)
	s := &Sender{Client: c, base: min(third, firstAttempt), slowest: min(third, 5*time.Second), most: max(ttl, third)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.unbind = context.AfterFunc(c.etcd.Ctx(), func() { s.end(ErrClientClosed) })
	return s
}

// End makes all requests return err, also those under way. Only the first call counts.
func (s *Sender) End(err error) {
	s.unbind()
	s.end(err)
}

// Ended returns why nothing is sent any more: the error of End, or ErrClientClosed. It
// returns nil before.
func (s *Sender) Ended() error { return context.Cause(s.ctx) }

// Context returns a context that ends when nothing is sent any more.
func (s *Sender) Context() context.Context { return s.ctx }

// errLate is why an attempt is given up.
var errLate = errors.New("no answer in time")

// Method is a method of one of etcd's services.
type Method[Q, R any] = func(context.Context, Q, ...grpc.CallOption) (R, error)

// Ask makes attempts at a request that may be carried out more than once, until it is
// answered, cannot be, or ctx ends.
func Ask[Q, R any](ctx context.Context, s *Sender, m Method[Q, R], r Q) (R, error) {
	var a Attempt
	for {
		resp, err := Send(ctx, s, a, m, r)
		if err != nil {
			err = a.Again(ctx, s, err)
			if err == nil {
				continue
			}
		}
		return resp, err
	}
}

// Send makes one attempt at a request.
//
// Its timeout is not a deadline of the context: that would be sent with the request, and
// cost the server a timer. When the attempt is given up, the server is notified anyway.
//
// It ends, whatever comes first, with
//
//	an answer, or an error of the server      that, before the client sends the request again
//	the end of ctx                            an error that is Late
//	the end of the Sender                     an error that is Late; Ended has the reason
//	the timeout                               an error that is Late
//
// An error that is Late proves nothing about the request.
func Send[Q, R any](ctx context.Context, s *Sender, a Attempt, m Method[Q, R], r Q) (resp R, err error) {
	if err := s.Ended(); err != nil {
		return resp, err
	}
	ctx, cancel := context.WithCancelCause(s.requireLeader(ctx))
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(s.Ended()) })() //nolint:contextcheck // it is about the Sender's end
	timer := time.AfterFunc(s.timeout(a), func() { cancel(errLate) })
	defer timer.Stop()
	to := &route{attempt: a}
	if a.n == 0 {
		err = connected(ctx, s.routes.turns)
	} else {
		ctx = context.WithValue(ctx, routeKey{}, to)
	}
	to.sent = time.Now()
	if err == nil {
		resp, err = m(ctx, r, append(slices.Clip(s.Options), grpc.OnFinish(func(err error) { endOnce(err, cancel) }))...)
	}
	no, learner := errors.AsType[refusal](context.Cause(ctx))
	if learner && err != nil { // else the answer came all the same
		err = no.error
	}
	if err == nil && !a.Patient {
		s.measured(time.Since(to.sent), s.base)
	}
	return resp, rpctypes.Error(err)
}

// refusal is why an attempt is ended that a learner has refused.
type refusal struct{ error }

// endOnce ends an attempt after its one request, with err, because the client would send it again:
//
//	err             sent again
//	of a learner    up to a hundred times, wherever the connection goes to next
//	Late            up to a hundred times: a server or a proxy has given up, and the context has not ended
//	nil             the same, if an interceptor makes an error that is Late of the answer
func endOnce(err error, cancel context.CancelCauseFunc) {
	switch {
	case err == nil, Late(err):
		cancel(errLate)
	case rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner):
		cancel(refusal{err})
	}
}

// maxDoublings is the most that a timeout is doubled; more would overflow.
const maxDoublings = 6

// timeout returns the timeout of an attempt. It doubles whenever each endpoint has had one
// more attempt: another endpoint may answer at once, but the same one is given more time.
func (s *Sender) timeout(a Attempt) time.Duration {
	rounds := a.n
	if rounds > 0 { // the client copies its endpoints each time, and most requests need one attempt
		rounds /= max(len(s.Endpoints()), 1)
	}
	s.mu.Lock()
	base := min(s.base<<s.slow, s.slowest)
	s.mu.Unlock()
	if a.Patient {
		return max(s.most, base)
	}
	return min(base<<min(rounds, maxDoublings), max(s.most, base))
}

// measured records how long an answer took. First attempts get at least twice that: if the
// service is overloaded or far away, an attempt with too short a timeout achieves nothing
// and adds to the load. The timeout falls slowly, by half at a time, because a few quick
// reads do not show how long a write takes. It does not apply to keep-alives and their
// reads, which are never given up for being slow, and show nothing of other endpoints.
//
// base is that of the Sender: its users share what is known of the service, and not the time
// that they have.
func (c *Client) measured(took, base time.Duration) {
	n := min(bits.Len64(uint64(2*took/base)), maxDoublings) //nolint:gosec // no time is negative
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n > c.slow:
		c.slow, c.changed = n, now
	case n < c.slow && now.Sub(c.changed) > base<<c.slow:
		c.slow, c.changed = c.slow-1, now
	}
}

// Attempt is the number of an attempt at one request, and where it goes. The zero value is
// the first attempt, which takes a turn of the client's connection.
type Attempt struct {
	Patient bool // it has the longest timeout, whatever its number

	// n is how many attempts were before this one. Those with n > 0 go to one endpoint by
	// name: to the one with the index start+n-1, counted in a circle.
	n     int
	start int

	tokens int // how many attempts have met an expired login: at most maxTokens, and one more
}

// To returns an attempt at the i-th endpoint.
func To(i int) Attempt { return Attempt{n: 1, start: i} }

// Named reports whether the attempt goes to one endpoint by name.
func (a Attempt) Named() bool { return a.n > 0 }

// Next makes the next attempt go to another endpoint than those before, until all have had one.
func (a *Attempt) Next(s *Sender) {
	a.n++
	if a.n == 1 && s.routes != nil {
		s.routes.mu.Lock()
		a.start = s.routes.start
		s.routes.mu.Unlock()
	}
}

// maxTokens is how often a request is sent again because the login had expired. The client
// logs in again by itself; an administrator who changes users all the time makes that fail.
const maxTokens = 3

// Again waits before the next attempt, after one that ended with the error last. If there
// must be no other attempt, it returns why: an error of package driver that wraps last.
//
//	last proves                 ctx and Sender live           ctx has ended  the Sender has ended
//	BadToken, up to maxTokens   another attempt               ContextError   the error of End
//	Denied, Refused, Full,      Explain(last), at once        the same       the same
//	SessionOver, BadToken
//	Unknown, NotDone            another attempt               ContextError   the error of End
//
// The text of a ContextError has the last answer of a server, if there was one: it explains more
// than that the time is up.
func (a *Attempt) Again(ctx context.Context, s *Sender, last error) error {
	switch Classify(last) {
	case BadToken:
		a.tokens++
		if a.tokens > maxTokens {
			return s.Explain(last)
		}
	case Denied, Refused, Full, SessionOver:
		return s.Explain(last)
	case Unknown, NotDone:
	}
	d := 5 * time.Millisecond << min(a.n, 6)
	a.Next(s)
	select {
	case <-time.After(d/2 + rand.N(d)):
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	ended := s.Ended()
	switch {
	case ended != nil:
		return ended
	case ctx.Err() == nil:
		return nil
	case Late(last):
		return driver.ContextError(ctx)
	}
	return fmt.Errorf("%w (last answer: %w)", driver.ContextError(ctx), last)
}
