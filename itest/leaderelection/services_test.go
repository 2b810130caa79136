package leaderelection

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
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
	postgres = shared[*pgtest.Server]{start: startPostgres}
	redis    = shared[*redistest.Server]{start: startRedis}
)

// services return the URL of a server, and the address in it.
var services = map[string]func(testing.TB) (url, addr string){
	"postgres": func(t testing.TB) (string, string) {
		s := postgres.use(t)
		return s.URL(), s.Addr()
	},
	"redis": func(t testing.TB) (string, string) {
		s := redis.use(t)
		return s.URL(), s.Addr()
	},
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
	return s, redisbackend.Init(ctx, rueidis.ClientOption{InitAddress: []string{s.Addr()}}, &redisbackend.Options{MaxTTL: maxTTL})
}

// open opens a session at a URL.
func open(ctx context.Context, url string, ttl time.Duration) (*session.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, hang.Guard)
	defer cancel()
	o := session.Options{TTL: ttl}
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "postgres":
		return pgbackend.Dial(ctx, url, &pgbackend.Options{Session: o})
	case "redis":
		return redisbackend.Dial(ctx, url, &redisbackend.Options{Session: o, MaxTTL: maxTTL})
	}
	return nil, fmt.Errorf("no service has the URL %s", url)
}
