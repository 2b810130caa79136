package leaderelection

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/zktest"
)

// maxTTL is the greatest TTL of a session.
const maxTTL = 30 * time.Second

// shared is a server that all tests use.
type shared[S io.Closer] struct {
	start func(context.Context) (S, error)

	once    sync.Once
	server  S
	err     error
	started bool
}

// use returns the server, and starts it for the first test.
func (s *shared[S]) use(t testing.TB) S {
	t.Helper()
	s.once.Do(func() {
		s.server, s.err = s.start(context.Background())
		s.started = s.err == nil
	})
	require.NoError(t, s.err)
	return s.server
}

// Close ends the server, if it was started.
func (s *shared[S]) Close() error {
	if !s.started {
		return nil
	}
	return s.server.Close()
}

var (
	etcd      = shared[*etcdtest.Cluster]{start: startEtcd}
	postgres  = shared[*pgtest.Server]{start: startPostgres}
	redis     = shared[*redistest.Server]{start: startRedis}
	zookeeper = shared[*zktest.Ensemble]{start: func(ctx context.Context) (*zktest.Ensemble, error) { return zktest.Start(ctx, nil) }}
)

// services return the URL of a server, and the address in it.
var services = map[string]func(testing.TB) (url, addr string){
	"etcd": func(t testing.TB) (string, string) {
		addr := strings.TrimPrefix(etcd.use(t).Endpoints()[0], "http://")
		return "etcd://" + addr, addr
	},
	"postgres": func(t testing.TB) (string, string) {
		s := postgres.use(t)
		return s.URL(), s.Addr()
	},
	"redis": func(t testing.TB) (string, string) {
		addr := redis.use(t).Addr()
		return redisURL(addr), addr
	},
	"zk": func(t testing.TB) (string, string) {
		addr := zookeeper.use(t).Endpoints()[0]
		return "zk://" + addr, addr
	},
}

// startEtcd starts an etcd with its usual times, in a process that the race detector does not slow
// down: with shorter ones it serves nothing on a busy machine.
func startEtcd(ctx context.Context) (*etcdtest.Cluster, error) {
	return etcdtest.Start(ctx, &etcdtest.Options{Processes: true, Tick: 100 * time.Millisecond, Election: time.Second})
}

func startPostgres(ctx context.Context) (*pgtest.Server, error) {
	s, err := pgtest.Start(ctx, nil)
	if err != nil {
		return nil, err
	}
	conn, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // it is not needed any more
	return s, pgbackend.Apply(ctx, conn, "", maxTTL)
}

func startRedis(ctx context.Context) (*redistest.Server, error) {
	s, err := redistest.Start(ctx, nil)
	if err != nil {
		return nil, err
	}
	return s, redisbackend.InitURL(ctx, redisURL(s.Addr()), &redisbackend.Options{MaxTTL: maxTTL})
}

func redisURL(addr string) string { return "redis://" + addr + "?max-ttl=" + maxTTL.String() }

// open opens a session at a URL.
func open(ctx context.Context, url string, ttl time.Duration) (*session.Session, error) {
	return stores.Open(ctx, url, &stores.Options{Timeout: hang.Guard, Session: session.Options{TTL: ttl}})
}
