package session_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// observed is a backend that counts its observers.
type observed struct {
	driver.Backend
	opened, open atomic.Int64
	over         atomic.Bool // the observers that are open are over
}

func (b *observed) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil || !cfg.Observer {
		return s, err
	}
	b.opened.Add(1)
	b.open.Add(1)
	b.over.Store(false)
	return observingSession{s, b}, nil
}

type observingSession struct {
	driver.Session
	b *observed
}

func (s observingSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	if s.b.over.Load() {
		return driver.View{}, driver.ErrSessionOver
	}
	return s.Session.Read(ctx, req)
}

func (s observingSession) Abandon() {
	s.b.open.Add(-1)
	s.Session.Abandon()
}

func (s observingSession) Close(ctx context.Context) error {
	s.b.open.Add(-1)
	return s.Session.Close(ctx)
}

// withoutTerm is a Session without a live term, on a service where another client holds the
// lock "n" and gives a semaphore of that name three permits.
func withoutTerm(t *testing.T) (st *membackend.Store, c *membackend.Client, b *observed, s *session.Session) {
	t.Helper()
	st = memtest.NewWith(memory.Options{})
	holder, err := st.NewClient().Backend().Open(t.Context(), driver.Config{
		TTL: time.Hour, Margin: func(time.Duration) time.Duration { return time.Second }, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, holder.Close(context.Background())) })
	_, err = holder.Join(t.Context(), driver.JoinRequest{
		Queue: "n", Mode: driver.Weighted, Weight: 2, Data: []byte(`{"v":1,"host":"web-2"}`),
		Ops: []driver.Op{{Record: "limit", Value: []byte("3")}},
	})
	require.NoError(t, err)

	c = st.NewClient()
	b = &observed{Backend: c.Backend()}
	s, err = core.Open(t.Context(), b, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	term, err := core.Of(s).Live(t.Context())
	require.NoError(t, err)
	_, err = s.Queue(t.Context(), "n")
	require.NoError(t, err)
	require.Zero(t, b.opened.Load(), "the live term serves a read")
	require.True(t, st.Expire(term.Driver().ID()))
	<-term.Context().Done()
	synctest.Wait()
	return st, c, b, s
}

func TestReadsNeedNoLiveTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, b, s := withoutTerm(t)

		queue, err := s.Queue(t.Context(), "n")
		require.NoError(t, err)
		require.Len(t, queue, 1)
		assert.Equal(t, session.Holder, queue[0].State)
		assert.Equal(t, "web-2", queue[0].Host)
		names, err := s.Names(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"n"}, names)
		limit, err := core.Of(s).Limit(t.Context(), "n")
		require.NoError(t, err)
		assert.EqualValues(t, 3, limit)
		requests, err := yield.List(t.Context(), s, "n")
		require.NoError(t, err)
		assert.Empty(t, requests)
		require.NoError(t, s.Evict(t.Context(), queue[0]))
		require.ErrorIs(t, s.Evict(t.Context(), queue[0]), session.ErrGone)

		assert.Len(t, st.Sessions(), 1, "no other term was opened")
		assert.EqualValues(t, 1, b.opened.Load(), "one observer serves all")
		require.NoError(t, s.Close())
		assert.Zero(t, b.open.Load())
		_, err = s.Queue(t.Context(), "n")
		require.ErrorIs(t, err, session.ErrClosed)
	})
}

func TestAnObserverThatIsOverIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b, s := withoutTerm(t)
		for range 3 {
			b.over.Store(true)
			_, err := s.Queue(t.Context(), "n")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, b.open.Load())
	})
}

func TestCloseEndsAReadWithoutATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _, s := withoutTerm(t)
		c.Cut(fault.Both)
		got := make(chan error, 1)
		go func() {
			_, err := s.Queue(context.Background(), "n")
			got <- err
		}()
		synctest.Wait()
		c.Heal()
		require.NoError(t, s.Close())
		require.Error(t, <-got)
	})
}
