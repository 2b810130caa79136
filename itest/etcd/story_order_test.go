package etcd

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
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
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// logbook keeps the log of a session.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// ended returns the log lines about streams that ended for any reason but silence:
// on a machine that stands still, answers are late.
func (l *logbook) ended() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(strings.Split(l.text.String(), "\n"), func(line string) bool {
		return !strings.Contains(line, "watch stream broken") || strings.Contains(line, "gone silent")
	})
}

// busy is a session at a round trip of 200 ms that observes an election, and one
// beside the server that proclaims there 300 times a second.
type busy struct {
	log  *logbook     // of the distant session
	told atomic.Int64 // proclamations that were made
}

func newBusy(t *testing.T, ttl time.Duration) *busy {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	b := &busy{log: &logbook{}}
	direct, err := cluster.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = []string{cluster.Member(0).Direct()} })
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close() })
	near, err := etcdbackend.Open(t.Context(), direct, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = near.Close() })
	far, err := etcdbackend.Open(t.Context(), cluster.Client(t), &etcdbackend.Options{Session: session.Options{
		TTL: ttl, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = far.Close() })

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	lead := election.New(near, "busy")
	h, err := lead.Campaign(ctx, "0")
	require.NoError(t, err)
	for _, dir := range []fault.Direction{fault.Requests, fault.Replies} {
		cluster.Member(0).ClientProxy().Delay(dir, 100*time.Millisecond)
	}
	seen := make(chan struct{})
	wg.Go(func() {
		once := sync.OnceFunc(func() { close(seen) })
		for _, err := range election.New(far, "busy").Observe(ctx) {
			if err == nil {
				once()
			}
		}
	})
	<-seen
	wg.Go(func() {
		tick := time.NewTicker(time.Second / 300)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			if lead.Proclaim(ctx, h, fmt.Sprint(b.told.Add(1))) != nil {
				return
			}
		}
	})
	return b
}

// proclaimed waits until so many more proclamations were made.
func (b *busy) proclaimed(t *testing.T, n int64) {
	for end := b.told.Load() + n; b.told.Load() < end; {
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond) // asking again is all one can do from outside
	}
}

// The version of the server cannot be learned, so the order of the far session's
// stream is never sure and its own watches are never armed. The predecessor goes when
// the waiter has joined and before the server gets its watches, so no event comes. The
// timer of the waiter goes off after 45 s at the earliest with this TTL, and Lock gives
// up before that: only the read behind the watches can grant the lock.
func TestAStreamOfUnsureOrderHasAFreeLockGrantedByARead(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	near, err := etcdbackend.Open(t.Context(), cluster.Client(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = near.Close() })
	free := make(chan struct{})
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithChainStreamInterceptor(oldServer("unknown"), holdWatches(free)),
		)
	})
	joined := make(chan struct{}, 1)
	far, err := etcdbackend.Open(t.Context(), client, &etcdbackend.Options{Session: session.Options{
		TTL: time.Minute, Hooks: session.Hooks{Joined: func(session.Event) { joined <- struct{}{} }},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = far.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held, err := mutex.New(near, "x").Lock(ctx)
	require.NoError(t, err)
	done := lockLater(ctx, mutex.New(far, "x"))
	recipetest.Wait(t, joined, "the waiter's entry")
	require.NoError(t, held.Unlock())
	close(free)

	got := <-done
	require.NoError(t, got.err, "the lock is free, and its first waiter is not granted")
	require.NoError(t, got.h.Unlock())
}

// holdWatches has requests for watches wait until free is closed.
func holdWatches(free <-chan struct{}) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		st, err := open(ctx, d, cc, method, opts...)
		return &holding{ClientStream: st, free: free}, err
	}
}

type holding struct {
	grpc.ClientStream
	free <-chan struct{}
}

func (h *holding) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCreateRequest() != nil {
		select {
		case <-h.free:
		case <-h.Context().Done():
		}
	}
	return h.ClientStream.SendMsg(m)
}

// Being out of order is no reason to end a stream.
func TestABusyDistantStreamIsKept(t *testing.T) {
	t.Parallel()
	b := newBusy(t, 4*time.Second)
	b.proclaimed(t, 2400)
	assert.Empty(t, b.log.ended(), "streams that were made anew")
}

// stuck is a logger that blocks until it is released.
type stuck struct {
	slog.Handler
	reached func()
	free    chan struct{}
}

func (s stuck) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (s stuck) Handle(context.Context, slog.Record) error {
	s.reached()
	<-s.free
	return nil
}

// A watch is refused and the log blocks: other locks of the session go on.
func TestABlockedLoggerStopsNoWatch(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	client, err := cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(refuseFirst))
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	other, err := etcdbackend.Open(t.Context(), cluster.Client(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	reached, free := make(chan struct{}), make(chan struct{})
	s, err := etcdbackend.Open(t.Context(), client, &etcdbackend.Options{Session: session.Options{
		TTL: time.Minute, Logger: slog.New(stuck{reached: sync.OnceFunc(func() { close(reached) }), free: free}),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	t.Cleanup(sync.OnceFunc(func() { close(free) })) // before Close
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	wait := func(name string) (*session.Hold, chan error) {
		held, err := mutex.New(other, name).Lock(ctx)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			h, err := mutex.New(s, name).Lock(ctx)
			if err == nil {
				_ = h.Unlock()
			}
			done <- err
		}()
		recipetest.Until(t, "an entry behind the holder's", func() bool { // hooks wait behind the logger
			queue, err := mutex.New(other, name).Queue(ctx)
			return err == nil && len(queue) == 2
		})
		return held, done
	}
	refused, _ := wait("refused") // its watches are refused
	select {
	case <-reached:
	case <-ctx.Done():
		require.Fail(t, "nothing was logged")
	}
	held, done := wait("other")
	require.NoError(t, held.Unlock())
	require.NoError(t, <-done, "a lock behind a watch that is not refused")
	_ = refused
}

// refuseFirst has the answer to the first watch of a stream say that it is refused.
func refuseFirst(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	st, err := streamer(ctx, desc, cc, method, opts...)
	return &refusing{ClientStream: st}, err
}

type refusing struct {
	grpc.ClientStream
	once sync.Once
}

func (r *refusing) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pb.WatchResponse); ok && err == nil && resp.Created {
		r.once.Do(func() { resp.Canceled, resp.CancelReason = true, "permission denied" })
	}
	return err
}

// oldServer has the server say that it is of another version.
func oldServer(version string) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		st, err := open(ctx, d, cc, method, opts...)
		return &versioned{ClientStream: st, version: version}, err
	}
}

type versioned struct {
	grpc.ClientStream
	version string
}

func (v *versioned) RecvMsg(m any) error {
	err := v.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.StatusResponse); ok && err == nil {
		r.Version = v.version
	}
	return err
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	open := func(version string) error {
		client, err := cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(oldServer(version)))
		})
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		s, err := etcdbackend.Open(t.Context(), client, nil)
		if err == nil {
			require.NoError(t, s.Close())
		}
		return err
	}
	require.NoError(t, open("3.5.8"))
	require.NoError(t, open("unknown"), "what cannot be read is not refused")
	err := open("3.5.7")
	require.ErrorIs(t, err, session.ErrRefused)
	assert.ErrorContains(t, err, "3.5.7")
	assert.ErrorContains(t, err, "3.5.8")
}
