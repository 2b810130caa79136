package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/heard"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// calmTTL is for sessions whose expiry is not what the story is about: a busy
// machine must not cost them their lease. The engine's look without an event
// then comes after 15 s at the earliest, so that a grant that comes sooner was
// not its doing.
const (
	calmTTL = 20 * time.Second
	relooks = 15 * time.Second
)

// now is the clock that all processes of this machine share.
func now() driver.Instant { return driver.SystemClock().Now() }

// sharedCluster is one member that every story may use that does it no harm.
type sharedCluster struct {
	mu      sync.Mutex
	cluster *etcdtest.Cluster
	stories int
}

var shared sharedCluster

// use returns a client of the shared cluster, and a root for this test alone.
func (s *sharedCluster) use(t testing.TB) (c *etcdtest.Cluster, client *clientv3.Client, root string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		var err error
		s.cluster, err = etcdtest.Start(context.Background(), nil)
		require.NoError(t, err)
	}
	s.stories++
	return s.cluster, s.cluster.Client(t), fmt.Sprint("root", s.stories)
}

func (s *sharedCluster) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// clientOf returns a client of some members, past their proxies.
func clientOf(t testing.TB, c *etcdtest.Cluster, members ...int) *clientv3.Client {
	t.Helper()
	return clientWith(t, c, func(cfg *clientv3.Config) {
		cfg.Endpoints = nil
		for _, i := range members {
			cfg.Endpoints = append(cfg.Endpoints, c.Member(i).Direct())
		}
	})
}

func clientWith(t testing.TB, c *etcdtest.Cluster, edit func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	client, err := c.NewClient(edit)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// bounded is a context for what must not hang.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wait fails the test if ch is not closed, or has nothing, for too long.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.Fail(t, "waited in vain", what)
		panic("unreachable")
	}
}

// until polls what no event tells of: counters of proxies and of servers.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			require.Fail(t, "waited in vain", what)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

// party is a Session with what its hooks and its log said.
type party struct {
	*session.Session
	opts etcdbackend.Options
	log  heard.Words

	mu             sync.Mutex
	lost, rejoined []session.Event
}

// newParty prepares a party; open or dial makes its Session.
func newParty(t testing.TB, root string, ttl time.Duration) *party {
	p := &party{}
	note := func(to *[]session.Event) func(session.Event) {
		return func(ev session.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			*to = append(*to, ev)
		}
	}
	p.opts = etcdbackend.Options{Root: root, Session: session.Options{
		TTL:    ttl,
		Label:  t.Name()[strings.LastIndexByte(t.Name(), '/')+1:],
		Hooks:  session.Hooks{SessionLost: note(&p.lost), Rejoined: note(&p.rejoined)},
		Logger: p.log.Logger(t),
	}}
	return p
}

// open opens the Session on a client.
func (p *party) open(t testing.TB, client *clientv3.Client) *party {
	t.Helper()
	var err error
	p.Session, err = etcdbackend.Open(bounded(t), client, &p.opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// dial opens the Session on a client of its own.
func (p *party) dial(t testing.TB, cfg etcdbackend.DialConfig) error {
	t.Helper()
	var err error
	p.Session, err = etcdbackend.Dial(bounded(t), cfg, &p.opts)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
	}
	return err
}

// kept fails the test if the party lost a session or a place.
func (p *party) kept(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.lost, "lost sessions")
	assert.Empty(t, p.rejoined, "lost places")
}

// request is a Lock under way.
type request struct {
	done chan struct{} // closed when Lock has returned
	hold *session.Hold
	err  error
	at   driver.Instant
}

// ask calls Lock. That ends at the latest when the Session is closed.
func (p *party) ask(ctx context.Context, name string) *request {
	return p.askFor(func() (*session.Hold, error) { return mutex.New(p.Session, name).Lock(ctx) })
}

// askFor asks for a hold in any way.
func (p *party) askFor(want func() (*session.Hold, error)) *request {
	r := &request{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.hold, r.err = want()
		r.at = now()
	}()
	return r
}

// granted waits for the hold.
func (r *request) granted(t testing.TB) *session.Hold {
	t.Helper()
	wait(t, r.done, "a grant")
	require.NoError(t, r.err)
	return r.hold
}

// waits fails the test if Lock has returned.
func (r *request) waits(t testing.TB) {
	t.Helper()
	select {
	case <-r.done:
		require.Fail(t, "Lock has returned", "hold %v, error %v", r.hold, r.err)
	default:
	}
}

// lock is ask and granted.
func (p *party) lock(t testing.TB, name string) *session.Hold {
	t.Helper()
	return p.ask(bounded(t), name).granted(t)
}

// tap counts what a client hears from its servers.
type tap struct {
	watches   atomic.Int64 // watches that a server made
	refused   atomic.Int64 // watches that a server did not make
	streams   atomic.Int64 // watch streams opened
	logins    atomic.Int64 // requests to log in
	badTokens atomic.Int64 // requests and renewals answered with "login expired"
}

// on has the tap put into a client.
func (c *tap) on(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			s, err := open(ctx, d, cc, method, opts...)
			if err != nil {
				return s, err
			}
			if strings.HasSuffix(method, "Watch/Watch") {
				c.streams.Add(1)
			}
			return &tapped{s, c}, nil
		}),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if strings.HasSuffix(method, "Auth/Authenticate") {
				c.logins.Add(1)
			}
			return c.heard(invoke(ctx, method, req, reply, cc, opts...))
		}),
	)
}

// heard counts an error and passes it on.
func (c *tap) heard(err error) error {
	if err != nil && strings.Contains(err.Error(), "invalid auth token") {
		c.badTokens.Add(1)
	}
	return err
}

type tapped struct {
	grpc.ClientStream
	c *tap
}

func (s *tapped) RecvMsg(m any) error {
	err := s.c.heard(s.ClientStream.RecvMsg(m))
	if r, ok := m.(*pb.WatchResponse); ok && err == nil && r.Created {
		if r.Canceled {
			s.c.refused.Add(1)
		} else {
			s.c.watches.Add(1)
		}
	}
	return err
}

// givenBack accepts that the answer to an Unlock may not come in time while the
// cluster has no leader. The delete is finished in the background then.
func givenBack(t testing.TB, h *session.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		assert.ErrorIs(t, err, session.ErrReleasePending)
	}
}
