package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// calm is one member that every test may use that does it no harm.
var calm = both.Shared[*etcdtest.Cluster]{
	Start: func(ctx context.Context) (*etcdtest.Cluster, error) { return etcdtest.Start(ctx, nil) },
}

// shared returns a client of the calm member, and a root for this test alone.
func shared(t testing.TB) (c *etcdtest.Cluster, client *clientv3.Client, root string) {
	t.Helper()
	c, user := calm.Use(t)
	return c, c.Client(t), fmt.Sprint("root", user)
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

// lockClient is a session on etcd with the events of its hooks and its log.
type lockClient struct {
	recipetest.Client

	opts etcdbackend.Options // to be changed before open or dial
}

// newClient prepares a client; open or dial makes its session.
func newClient(t testing.TB, root string, ttl time.Duration) *lockClient {
	p := &lockClient{}
	p.opts = etcdbackend.Options{Root: root, Session: p.SessionOptions(t, ttl)}
	return p
}

// open opens the Session on a client.
func (p *lockClient) open(t testing.TB, client *clientv3.Client) *lockClient {
	t.Helper()
	s, err := etcdbackend.Open(recipetest.Bounded(t), client, &p.opts)
	require.NoError(t, p.Opened(t, s, err))
	return p
}

// dial opens the Session on a client of its own.
func (p *lockClient) dial(t testing.TB, cfg etcdbackend.DialConfig) error {
	t.Helper()
	s, err := etcdbackend.Dial(recipetest.Bounded(t), cfg, &p.opts)
	return p.Opened(t, s, err)
}

// meter counts what a client receives from its servers.
type meter struct {
	watches   atomic.Int64 // watches that a server made
	refused   atomic.Int64 // watches that a server did not make
	events    atomic.Int64 // events of all watches
	streams   atomic.Int64 // watch streams opened
	logins    atomic.Int64 // requests to log in
	badTokens atomic.Int64 // requests and renewals answered with "login expired"
}

// on adds the meter to the configuration of a client.
func (c *meter) on(cfg *clientv3.Config) {
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
			return &metered{s, c}, nil
		}),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if strings.HasSuffix(method, "Auth/Authenticate") {
				c.logins.Add(1)
			}
			return c.received(invoke(ctx, method, req, reply, cc, opts...))
		}),
	)
}

// received counts an error and returns it.
func (c *meter) received(err error) error {
	if err != nil && strings.Contains(err.Error(), "invalid auth token") {
		c.badTokens.Add(1)
	}
	return err
}

type metered struct {
	grpc.ClientStream
	c *meter
}

func (s *metered) RecvMsg(m any) error {
	err := s.c.received(s.ClientStream.RecvMsg(m))
	if r, ok := m.(*pb.WatchResponse); ok && err == nil {
		s.c.events.Add(int64(len(r.Events)))
		switch {
		case r.Created && r.Canceled:
			s.c.refused.Add(1)
		case r.Created:
			s.c.watches.Add(1)
		}
	}
	return err
}

// hooked is a stream with functions that are called before a message is sent and
// after one was received; nil does nothing.
type hooked struct {
	grpc.ClientStream
	send, recv func(s grpc.ClientStream, m any)
}

// hookStreams has the streams of a client hooked.
func hookStreams(cfg *clientv3.Config, send, recv func(grpc.ClientStream, any)) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(func(
		ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s, err := open(ctx, d, cc, method, opts...)
		return &hooked{s, send, recv}, err
	}))
}

func (s *hooked) SendMsg(m any) error {
	if s.send != nil {
		s.send(s.ClientStream, m)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *hooked) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && s.recv != nil {
		s.recv(s.ClientStream, m)
	}
	return err
}

func second[T any](_ T, err error) error { return err }
