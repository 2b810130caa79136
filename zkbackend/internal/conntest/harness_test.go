package conntest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
	"github.com/fairlock/fairlock/zktest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if e, err := standalone(); err == nil {
		_ = e.Close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	shortTTL = 2 * time.Second
	calmTTL  = 40 * time.Second // a connection that is silent for a quarter of it ends
	testTime = hang.Guard       // no claim about time rests on it
)

var open = zk.WorldACL(zk.PermAll)

// client is a Session and what it has reported.
type client struct {
	*conn.Session
	cfg conn.Config

	mu   sync.Mutex
	gone []error
}

func newClient(ttl time.Duration, servers ...string) *client {
	c := &client{cfg: conn.Config{
		Servers: servers, TTL: ttl, TickTime: 50 * time.Millisecond,
		Margin: func(ttl time.Duration) time.Duration { return max(ttl/10, 100*time.Millisecond) },
		Logger: slog.New(slog.DiscardHandler), Clock: driver.SystemClock(),
	}}
	c.cfg.Renewed = func(driver.Instant, time.Duration, time.Duration) {}
	c.cfg.Gone = func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = append(c.gone, err)
	}
	return c
}

// open opens the session, which is closed at the end of the test.
func (c *client) open(t *testing.T) *client {
	t.Helper()
	var err error
	c.Session, err = conn.Open(bounded(t), c.cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shortTTL)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func (c *client) losses() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.gone)
}

// notices collects what a watch reports.
type notices chan conn.Notice

func (n notices) next(t *testing.T) conn.Notice {
	t.Helper()
	select {
	case got := <-n:
		return got
	case <-time.After(testTime):
		require.FailNow(t, "no notice")
		return conn.Notice{}
	}
}

func (c *client) watch(kind conn.WatchKind, path string) (notices, func()) {
	n := make(notices, 100)
	return n, c.Watch(kind, path, func(got conn.Notice) { n <- got })
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

var (
	standalone = sync.OnceValues(func() (*zktest.Ensemble, error) { return zktest.Start(context.Background(), nil) })
	roots      atomic.Int64
)

// members returns three servers. A follower that is silent for ten seconds wants nothing but a core,
// and is waited for.
func members(t *testing.T, opts zktest.Options) *zktest.Ensemble {
	t.Helper()
	opts.Members, opts.Config = 3, map[string]string{"syncLimit": "100"}
	return zktest.New(t, &opts)
}

// shared returns a server that many tests use, and a folder of the test's own.
func shared(t *testing.T) (e *zktest.Ensemble, admin *zk.Conn, root string) {
	t.Helper()
	e, err := standalone()
	require.NoError(t, err)
	admin = e.Client(t)
	root = fmt.Sprint("/test", roots.Add(1))
	_, err = admin.Create(root, nil, 0, open)
	require.NoError(t, err)
	return e, admin, root
}

// proxyTo returns a proxy before a member of an ensemble.
func proxyTo(t *testing.T, e *zktest.Ensemble, i int) *testnet.Proxy {
	t.Helper()
	p, err := testnet.New(e.Member(i).Direct(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// made sends a create, and reports whether a second one had to settle its outcome: a connection that is
// cut, or silent because the machine stands still, ends without the answer.
func (c *client) made(ctx context.Context, req conn.Request) (again bool, err error) {
	if _, err = c.Once(ctx, req); !isUnknown(err) {
		return false, err
	}
	if _, err = c.Repeat(ctx, req); errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return true, err
}

// has creates a node that ends with the session.
func (c *client) has(t *testing.T, path string) {
	t.Helper()
	_, err := c.made(bounded(t), create(path, nil, zk.FlagEphemeral))
	require.NoError(t, err)
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*conn.UnknownError](err)
	return ok
}

func create(path string, data []byte, flags int32) conn.Request {
	return conn.Multi(&zk.CreateRequest{Path: path, Data: data, Acl: open, Flags: flags})
}

func set(path string, data []byte, version int32) conn.Request {
	return conn.Multi(&zk.SetDataRequest{Path: path, Data: data, Version: version})
}
