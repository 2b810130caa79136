package onredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

// An operator can make a replica follow the old master again. Then two clients
// can hold at once: docs/reliability.md says so. If this test fails, the limit is gone, and the docs are wrong.
func TestAReplicaThatGoesBackLetsTwoHold(t *testing.T) {
	ctx := hang.Context(t)
	svc, err := onredis.Start(ctx, onredis.Replicas)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(svc, trial.Ours, 1)
	_, servers, err := test.Kinds(ctx)
	require.NoError(t, err)
	require.NotContains(t, servers, onredis.GoesBack)

	rs, err := test.Round(ctx, onredis.GoesBack, 8)

	require.NoError(t, err)
	overlaps := 0
	for _, r := range rs {
		for _, v := range r.Violations {
			t.Log(r.Queue, v.Property, v.Text)
			// Where the hold is asked nothing, only the time of its end shows the overlap.
			if v.Property == "S1" || v.Property == "L2" {
				overlaps++
				break
			}
		}
	}
	assert.Positive(t, overlaps)
}

// The greatest TTL of a root whose Sentinels move a replica back only later than that.
const staleTTL = 10 * time.Second

// A Sentinel that has missed a failover moves a replica back to the old master after its failover-timeout. As long
// as the network is cut, no client of the new master finds a majority. When it is whole again, the old master
// becomes a replica, and acknowledges for the new one while a holder trusts what it has renewed at the old one.
// docs/operations.md says so.
func TestASentinelWithAStaleViewLetsTwoHold(t *testing.T) {
	ctx := hang.Context(t)
	all := redistest.NewSentinels(t, &redistest.SentinelOptions{DownAfter: 2 * time.Second, FailoverTimeout: staleTTL + time.Second})
	old, stale, others := all.Servers()[0], all.Sentinels()[2], all.Sentinels()[:2]
	require.NoError(t, redisbackend.Init(ctx, reaches(all), staleOptions(staleTTL)))
	first, err := redisbackend.Open(ctx, reaches(all, old), staleOptions(staleTTL))
	require.NoError(t, err)
	defer func() { _ = first.Close() }() // its server has another life

	stale.Kill()
	require.NoError(t, old.Pause())
	next, err := all.AwaitFailover(ctx, old)
	require.NoError(t, err)
	third := all.Servers()[3-slices.Index(all.Servers(), next)]
	follows(t, third, next)
	opened := make(chan *session.Session, 1)
	go func() { // ends with ctx; what was counted is kept as long as one opening takes
		s, _ := redisbackend.Open(ctx, reaches(all, next), staleOptions(2*time.Second))
		opened <- s
	}()
	hang.Until(t, func() bool { return third.Do(ctx, "HGET", "{limits}:meta", "claim").Error() == nil }, "no claim is acknowledged")

	// The stale Sentinel, the old master and one replica are on one side; the new master is alone on the other.
	for _, x := range others {
		x.Kill()
	}
	next.Proxy().Hold(fault.Both)
	require.NoError(t, old.Resume())
	require.NoError(t, stale.Restart(ctx))
	follows(t, third, old)
	h, err := mutex.New(first, "x").Lock(ctx)
	require.NoError(t, err)
	assert.Empty(t, opened, "no majority has acknowledged it")

	next.Proxy().Heal(fault.Both)
	for _, x := range others {
		require.NoError(t, x.Restart(ctx))
	}
	second := hang.Receive(t, opened, "a session of the new master")
	require.NotNil(t, second)
	defer func() { assert.NoError(t, second.Close()) }()
	g, err := mutex.New(second, "x").Lock(ctx)
	require.NoError(t, err)

	require.NoError(t, h.Context().Err(), "if only one holds, the limit is gone, and the docs are wrong")
	assert.NoError(t, g.Context().Err())
	assert.NoError(t, g.Unlock())
}

func staleOptions(ttl time.Duration) *redisbackend.Options {
	return &redisbackend.Options{
		Root: "limits", MaxTTL: staleTTL, Nodes: 3,
		Session: session.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)},
	}
}

// reaches returns the options of a client that reaches the Sentinels and only these servers; all if there are none.
func reaches(all *redistest.Sentinels, only ...*redistest.Server) rueidis.ClientOption {
	near := all.Addrs()
	for _, s := range only {
		near = append(near, s.Addr())
	}
	return rueidis.ClientOption{
		InitAddress: all.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if len(only) > 0 && !slices.Contains(near, addr) {
				return nil, errors.New("the network is cut")
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}
}

// follows waits until a server is a replica of another, and has what that had.
func follows(t *testing.T, s, master *redistest.Server) {
	t.Helper()
	hang.Until(t, func() bool {
		fields, err := s.Info(t.Context(), "replication")
		return err == nil && strings.HasSuffix(master.Addr(), ":"+fields["master_port"]) && fields["master_link_status"] == "up"
	}, "the replica does not follow")
}
