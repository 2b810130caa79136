package rpc

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

const ms = time.Millisecond

// unconnected returns a Sender of a client that knows so many endpoints and connects to
// none.
func unconnected(t testing.TB, endpoints int, ttl, window time.Duration) *Sender {
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: slices.Repeat([]string{"127.0.0.1:1"}, max(endpoints, 1)), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = etcd.Close() })
	c, err := New(etcd, driver.SystemClock())
	require.NoError(t, err)
	return c.NewSender(ttl, window)
}

func TestTimeoutsGrowWhenEachEndpointHasHadAnAttempt(t *testing.T) {
	s := unconnected(t, 3, 15*time.Second, 13500*ms)
	timeouts := func() (all []time.Duration) {
		for n := range 10 {
			all = append(all, s.timeout(Attempt{n: n})/ms)
		}
		return all
	}
	assert.Equal(t, []time.Duration{400, 400, 400, 800, 800, 800, 1600, 1600, 1600, 3200}, timeouts())
	assert.Equal(t, 15*time.Second, s.timeout(Attempt{n: 1000}), "never longer than the TTL")

	s.measured(500*ms, s.base)
	assert.Equal(t, []time.Duration{1600, 1600, 1600, 3200, 3200, 3200, 6400, 6400, 6400, 12800}, timeouts(), "answers are slow")
	s.measured(time.Hour, s.base)
	assert.Equal(t, 4500*ms, s.timeout(Attempt{}), "three first attempts fit into the window")
}

// However slow the answers were: no attempt is shorter than without them, or than the one
// before, and three first attempts fit into the window.
func TestAttemptsKeepToTheWindowOfTheirSession(t *testing.T) {
	var senders []*Sender
	for endpoints := range 6 {
		senders = append(senders, unconnected(t, endpoints, time.Second, time.Second))
	}
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom(senders).Draw(t, "endpoints")
		ttl := time.Duration(rapid.Int64Range(int64(2*time.Second), int64(time.Hour)).Draw(t, "ttl"))
		window := max(time.Duration(rapid.Int64Range(int64(ttl/4), int64(ttl)).Draw(t, "window")), 600*ms)
		s, fresh := of.NewSender(ttl, window), (&Client{etcd: of.etcd}).NewSender(ttl, window)
		s.measured(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "answer")), s.base)
		last := time.Duration(0)
		for n := range 60 {
			d := s.timeout(Attempt{n: n})
			if least := fresh.timeout(Attempt{n: n}); d < least || d < last || d > max(ttl, window/3) {
				t.Fatalf("attempt %d has %s: at least %s, the one before %s, TTL %s", n, d, least, last, ttl)
			}
			if n < len(s.Endpoints()) && d > window/3 {
				t.Fatalf("attempt %d has %s of a window of %s", n, d, window)
			}
			last = d
		}
	})
}

// bubbled calls f in a bubble of time with a Sender to one endpoint.
func bubbled(t *testing.T, f func(t *testing.T, s *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		c := &Client{Clock: driver.SystemClock(), etcd: clientv3.NewCtxClient(t.Context()), routes: &routes{turns: conn}}
		f(t, c.NewSender(15*time.Second, 13500*ms))
	})
}

// attempt makes an attempt that the service would answer after d, and returns how long it
// was waited for.
func attempt(ctx context.Context, s *Sender, d time.Duration) (waited time.Duration, err error) {
	began := time.Now()
	_, err = Send(ctx, s, Attempt{}, func(ctx context.Context, _ struct{}, _ ...grpc.CallOption) (struct{}, error) {
		select {
		case <-time.After(d):
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
	}, struct{}{})
	return time.Since(began), err
}

func TestAnAttemptWaitsForAsLongAsAnswersTake(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		waited, err := attempt(t.Context(), s, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, Unknown, Classify(err))
		assert.Equal(t, firstAttempt, waited)

		_, err = attempt(t.Context(), s, 300*ms)
		require.NoError(t, err)
		waited, _ = attempt(t.Context(), s, time.Hour)
		assert.Equal(t, 2*firstAttempt, waited, "more than twice as long as an answer has taken")

		for range 50 { // quick ones: the time falls slowly
			time.Sleep(firstAttempt)
			_, err = attempt(t.Context(), s, ms)
			require.NoError(t, err)
		}
		waited, _ = attempt(t.Context(), s, time.Hour)
		assert.Equal(t, firstAttempt, waited)
	})
}

// TestAPatientAttemptChangesNoOther: it may have waited for a member that stood still.
func TestAPatientAttemptChangesNoOther(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		_, err := Send(t.Context(), s, Attempt{Patient: true}, func(context.Context, struct{}, ...grpc.CallOption) (struct{}, error) {
			time.Sleep(8 * time.Second)
			return struct{}{}, nil
		}, struct{}{})
		require.NoError(t, err)
		waited, _ := attempt(t.Context(), s, time.Hour)
		assert.Equal(t, firstAttempt, waited)
	})
}

func TestAQuickAnswerAmongSlowOnesShortensNoAttempt(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		s.measured(300*ms, s.base)
		for range 1000 {
			s.measured(ms, s.base)
		}
		waited, _ := attempt(t.Context(), s, time.Hour)
		assert.Equal(t, 2*firstAttempt, waited)
	})
}

func TestAnAttemptWithoutAnAnswerChangesNoTimeout(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		waited, err := attempt(ctx, s, time.Hour)
		require.Error(t, err)
		assert.Equal(t, 300*ms, waited, "the caller gives up")
		boom := errors.New("refused")
		_, err = Send(t.Context(), s, Attempt{}, func(context.Context, struct{}, ...grpc.CallOption) (struct{}, error) {
			time.Sleep(time.Second)
			return struct{}{}, boom
		}, struct{}{})
		require.ErrorIs(t, err, boom)
		waited, _ = attempt(t.Context(), s, time.Hour)
		assert.Equal(t, firstAttempt, waited)
	})
}

func TestTheEndOfASenderEndsItsAttempts(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		over := errors.New("the session is over")
		time.AfterFunc(100*ms, func() { s.End(over) })
		waited, err := attempt(t.Context(), s, time.Hour)
		require.Error(t, err)
		assert.Equal(t, 100*ms, waited)
		var a Attempt
		require.ErrorIs(t, a.Again(t.Context(), s, err), over)
		waited, err = attempt(t.Context(), s, time.Hour)
		require.ErrorIs(t, err, over)
		assert.Zero(t, waited, "nothing is sent any more")
	})
}

func TestTheEndOfTheClientEndsItsSenders(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	c := &Client{Clock: driver.SystemClock(), etcd: clientv3.NewCtxClient(ctx)}
	ended, open := c.NewSender(time.Second, time.Second), c.NewSender(time.Second, time.Second)
	over := errors.New("the session is over")
	ended.End(over)
	ended.End(errors.New("again"))
	require.NoError(t, open.Ended())
	stop(errors.New("the user's reason"))
	<-open.Context().Done()
	assert.Equal(t, []error{over, ErrClientClosed}, []error{ended.Ended(), open.Ended()})
}

// The client has no connection at first. A connection that ends for good is none to wait for.
func TestTheWaitForAConnectionIsNoSlowAnswer(t *testing.T) {
	bubbled(t, func(t *testing.T, s *Sender) {
		s.routes.turns.Connect()
		for s.routes.turns.GetState() != connectivity.TransientFailure {
			require.True(t, s.routes.turns.WaitForStateChange(t.Context(), s.routes.turns.GetState()))
		}
		time.AfterFunc(300*ms, func() { _ = s.routes.turns.Close() })
		waited, err := attempt(t.Context(), s, ms)
		require.NoError(t, err)
		assert.Equal(t, 301*ms, waited)
		assert.Equal(t, firstAttempt, s.timeout(Attempt{}))
	})
}
