package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session/driver"
)

// calm is one server that every test may use that does it no harm.
var calm = both.Shared[*redistest.Server]{
	Start: func(ctx context.Context) (*redistest.Server, error) { return redistest.Start(ctx, nil) },
}

// oneOption is how a client reaches one server.
func oneOption(s *redistest.Server) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.Addr()}}
}

// store is a root of one test.
type store struct {
	option rueidis.ClientOption
	opts   redisbackend.Options
}

var roots atomic.Int64

// newStore makes a root with a greatest TTL.
func newStore(t testing.TB, option rueidis.ClientOption, nodes int, maxTTL time.Duration) store {
	t.Helper()
	return newStoreWith(t, option, redisbackend.Options{MaxTTL: maxTTL, Nodes: nodes})
}

func newStoreWith(t testing.TB, option rueidis.ClientOption, opts redisbackend.Options) store {
	t.Helper()
	opts.Root = fmt.Sprint("root", roots.Add(1))
	require.NoError(t, redisbackend.Init(hang.Context(t), option, &opts))
	return store{option, opts}
}

// open opens a session.
func (s store) open(ctx context.Context, t testing.TB, ttl time.Duration, change ...func(*rueidis.ClientOption, *redisbackend.Options)) (*recipetest.Client, error) {
	t.Helper()
	c := &recipetest.Client{}
	option, o := s.option, s.opts
	o.Session = c.SessionOptions(t, ttl)
	for _, f := range change {
		f(&option, &o)
	}
	opened, err := redisbackend.Open(ctx, option, &o)
	return c, c.Opened(t, opened, err)
}

func (s store) client(t testing.TB, ttl time.Duration, change ...func(*rueidis.ClientOption, *redisbackend.Options)) *recipetest.Client {
	t.Helper()
	c, err := s.open(hang.Context(t), t, ttl, change...)
	require.NoError(t, err)
	return c
}

// refused fails the test unless no session can be opened, and returns why.
func (s store) refused(t testing.TB, change ...func(*rueidis.ClientOption, *redisbackend.Options)) error {
	t.Helper()
	_, err := s.open(hang.Context(t), t, s.opts.MaxTTL, change...)
	require.Error(t, err)
	return err
}

// keys returns the names of the keys of the root, without what they all begin with.
func (s store) keys(t testing.TB, server *redistest.Server) []string {
	t.Helper()
	all, err := server.Do(hang.Context(t), "KEYS", "{"+s.opts.Root+"}:*").AsStrSlice()
	require.NoError(t, err)
	for i := range all {
		all[i] = all[i][len(s.opts.Root)+3:]
	}
	return all
}

// waits reports whether a request has not returned.
func waits(r *recipetest.Request) bool {
	select {
	case <-r.Done:
		return false
	default:
		return true
	}
}

// openDriver opens a session of a backend.
func openDriver(t testing.TB, s store) driver.Session {
	t.Helper()
	b, err := redisbackend.NewBackend(s.option, &s.opts)
	require.NoError(t, err)
	opened, err := b.Open(hang.Context(t), driver.Config{
		TTL: s.opts.MaxTTL, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, opened.Close(context.WithoutCancel(t.Context())))
		assert.NoError(t, b.Close())
	})
	return opened
}

// joins makes an entry in each queue.
func joins(t testing.TB, s driver.Session, queues ...string) {
	t.Helper()
	for _, q := range queues {
		_, err := s.Join(hang.Context(t), driver.JoinRequest{Queue: q, Nearest: 1, Ops: []driver.Op{{Record: "slot/" + s.ID(), Value: []byte("x"), Bound: true}}})
		require.NoError(t, err)
	}
}
