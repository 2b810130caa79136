package etcd

import (
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
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// warnings returns the warnings and errors in a log, without those of watch streams that
// were silent: on a machine that stands still, answers are late.
func warnings(log string) []string {
	return slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
		return !strings.Contains(line, "level=WARN") && !strings.Contains(line, "level=ERROR") ||
			strings.Contains(line, "no answer on the watch stream")
	})
}

// ended returns the warnings of streams that ended for any reason but silence.
func ended(log string) []string {
	return slices.DeleteFunc(warnings(log), func(line string) bool { return !strings.Contains(line, "watch stream broken") })
}

// busy is a session at a round trip of 200 ms that observes an election, and one without a
// delay that proclaims there 300 times a second.
type busy struct {
	far       *lockClient
	proclaims atomic.Int64 // proclamations that were made
}

func newBusy(t *testing.T, ttl time.Duration) *busy {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	near := newClient(t, "root", recipetest.CalmTTL).open(t, clientOf(t, cluster, 0))
	b := &busy{far: newClient(t, "root", ttl).open(t, cluster.Client(t))}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	lead := election.New(near.Session, "busy")
	h, err := lead.Campaign(ctx, "0")
	require.NoError(t, err)
	for _, dir := range []fault.Direction{fault.Requests, fault.Replies} {
		cluster.Member(0).ClientProxy().Delay(dir, 100*time.Millisecond)
	}
	seen := make(chan struct{})
	wg.Go(func() {
		once := sync.OnceFunc(func() { close(seen) })
		for _, err := range election.New(b.far.Session, "busy").Observe(ctx) {
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
			if lead.Proclaim(ctx, h, fmt.Sprint(b.proclaims.Add(1))) != nil {
				return
			}
		}
	})
	return b
}

// proclaimed waits until so many more proclamations were made.
func (b *busy) proclaimed(t *testing.T, n int64) {
	for end := b.proclaims.Load() + n; b.proclaims.Load() < end; {
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond) // no event shows this from outside, so poll
	}
}

// The predecessor leaves when the waiter has joined, and before the server gets the
// waiter's watches, so no event comes. Only what is read when the watches are armed can grant
// the lock before the timer of the waiter goes off, see EventTTL.
func TestAReleaseBeforeTheWatchesAreMadeIsNoticed(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	near := newClient(t, "root", recipetest.CalmTTL).open(t, cluster.Client(t))
	free := make(chan struct{})
	far := newClient(t, "root", recipetest.EventTTL).open(t, clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, func(s grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchRequest); ok && r.GetCreateRequest() != nil {
				select {
				case <-free:
				case <-s.Context().Done():
				}
			}
		}, nil)
	}))
	held := near.Lock(t, "x")
	next := far.Begin(recipetest.Bounded(t), "x")
	far.Stands(t, 1)
	recipetest.Unlock(t, held)
	close(free)

	recipetest.Unlock(t, next.Granted(t))
}

// A server that reports more than its connection takes is late, and out of order. That is
// no reason to end a stream.
func TestABusyDistantStreamIsKept(t *testing.T) {
	t.Parallel()
	b := newBusy(t, 4*time.Second)
	b.proclaimed(t, 2400)
	assert.Empty(t, ended(b.far.Log.String()), "streams that were made anew")
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
	var refused sync.Map // streams whose first watch was refused
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, nil, func(s grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchResponse); ok && r.Created {
				if _, again := refused.LoadOrStore(s, true); !again {
					r.Canceled, r.CancelReason = true, "permission denied"
				}
			}
		})
	})
	other := newClient(t, "root", recipetest.CalmTTL).open(t, cluster.Client(t))
	reached, free := make(chan struct{}), make(chan struct{})
	p := newClient(t, "root", time.Minute)
	p.opts.Session.Logger = slog.New(stuck{reached: sync.OnceFunc(func() { close(reached) }), free: free})
	p.open(t, client)
	t.Cleanup(func() { close(free) }) // before Close

	wait := func(name string) (held *session.Hold, next *recipetest.Request) {
		held = other.Lock(t, name)
		next = p.Begin(recipetest.Bounded(t), name)
		other.Queued(t, name, 2) // hooks wait behind the logger
		return held, next
	}
	wait("refused") // its watches are refused
	recipetest.Wait(t, reached, "a record of the log")
	held, next := wait("other")
	recipetest.Unlock(t, held)
	recipetest.Unlock(t, next.Granted(t)) // it is behind a watch that is not refused
}

// reportVersion makes the server report another version.
func reportVersion(cfg *clientv3.Config, version string) {
	hookStreams(cfg, nil, func(_ grpc.ClientStream, m any) {
		if r, ok := m.(*pb.StatusResponse); ok {
			r.Version = version
		}
	})
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	open := func(version string) error {
		client := clientWith(t, cluster, func(cfg *clientv3.Config) { reportVersion(cfg, version) })
		s, err := etcdbackend.Open(t.Context(), client, nil)
		if err == nil {
			require.NoError(t, s.Close())
		}
		return err
	}
	require.NoError(t, open("3.4.0"))
	require.NoError(t, open("unknown"), "what cannot be read is not refused")
	for _, old := range []string{"3.3.27", "2.3.8"} {
		err := open(old)
		require.ErrorIs(t, err, session.ErrRefused)
		assert.ErrorContains(t, err, "etcd "+old)
		assert.ErrorContains(t, err, "3.4 or newer")
	}
}
