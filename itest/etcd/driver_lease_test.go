package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

func TestEtcdDriverRenewsAroundABlackHole(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	var ls []*leased
	for range 6 {
		ls = append(ls, lease(t, cluster.Client(t), nil, 4*time.Second))
	}
	for i := range 3 {
		cluster.Member(i).ClientProxy().Hold(fault.Both)
		time.Sleep(5 * time.Second) // longer than the TTL
		cluster.Member(i).ClientProxy().Heal(fault.Both)
		for _, l := range ls {
			require.False(t, l.isGone())
			assert.Less(t, l.b.Clock().Now().Sub(l.newest()), 3*time.Second, "window")
		}
	}
}

func TestEtcdDriverRevokedLeaseIsReported(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 3*time.Second)
	j := l.join(t, "x")
	var id int64
	_, err := fmt.Sscanf(l.ID(), "%x", &id)
	require.NoError(t, err)
	_, err = client.Revoke(t.Context(), clientv3.LeaseID(id))
	require.NoError(t, err)

	l.Prove()
	require.Eventually(t, l.isGone, recipetest.Patience, time.Millisecond)
	_, err = l.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrSessionOver)
	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
	require.ErrorIs(t, err, driver.ErrGone)
	require.NoError(t, l.Close(t.Context()))
}

func TestEtcdDriverContextsAreObeyed(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	l := lease(t, cluster.Client(t), nil, 5*time.Second)
	j := l.join(t, "x")
	cluster.Member(0).ClientProxy().Hold(fault.Both)
	for name, f := range map[string]func(context.Context) error{
		"join": func(ctx context.Context) error { _, err := l.Join(ctx, driver.JoinRequest{Line: "x"}); return err },
		"leave": func(ctx context.Context) error {
			_, err := l.Leave(ctx, driver.LeaveRequest{Ref: j.Entry.Ref})
			return err
		},
		"look":  func(ctx context.Context) error { _, err := l.Look(ctx, driver.LookRequest{Line: "x"}); return err },
		"list":  func(ctx context.Context) error { _, err := l.b.List(ctx, "x", 0); return err },
		"names": func(ctx context.Context) error { _, err := l.b.Names(ctx, "x"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		err := f(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Less(t, time.Since(begin), 500*time.Millisecond, name)
	}
	cluster.Member(0).ClientProxy().Heal(fault.Both)
}

func TestEtcdDriverStandsInLineWithMutex(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, &etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency}, 5*time.Second)
	cs, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	require.NoError(t, err)
	m := concurrency.NewMutex(cs, "team/x")
	require.NoError(t, m.Lock(t.Context()))

	j := l.join(t, "team/x")
	require.Equal(t, 1, j.Ahead)
	assert.True(t, j.Known[0].Foreign)
	assert.False(t, j.Known[0].Unleased)
	assert.Equal(t, fmt.Sprintf("%x", int64(cs.Lease())), j.Known[0].Session)
	pre := l.watch(t, driver.WatchRequest{Ref: j.Known[0].Ref})
	pre.next(t, driver.Armed)
	require.NoError(t, m.Unlock(t.Context()))
	pre.next(t, driver.Gone)
	names, err := l.b.Names(t.Context(), "team/")
	require.NoError(t, err)
	assert.Equal(t, []string{"team/x"}, names)

	locked := make(chan error, 1)
	go func() { locked <- m.Lock(context.Background()) }()
	require.Eventually(t, func() bool { return count(t, client, "team/x/") == 2 }, recipetest.Patience, time.Millisecond)
	assert.Empty(t, locked)
	l.leave(t, j.Entry.Ref)
	require.NoError(t, <-locked)
	require.NoError(t, cs.Close())
}

func TestEtcdDriverFullQuotaIsNamed(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	l := lease(t, client, nil, 30*time.Second)
	held := l.join(t, "x")
	for i := 0; ; i++ {
		_, err := client.Put(t.Context(), fmt.Sprint("fill", i), strings.Repeat("x", 1<<20))
		if err != nil {
			break
		}
		require.Less(t, i, 100)
	}
	_, err := l.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrRefused)
	var pending *driver.PendingError
	assert.False(t, errors.As(err, &pending))
	assert.ErrorContains(t, err, "NOSPACE")
	assert.ErrorContains(t, err, "disarm")
	_, err = l.b.Open(t.Context(), driver.Config{
		TTL: 5 * time.Second, Window: 4 * time.Second, Logger: slog.Default(),
		Proof: func(driver.Instant, time.Duration) {}, Gone: func(error) {},
	})
	require.ErrorIs(t, err, driver.ErrRefused)
	assert.Equal(t, 1, count(t, client, "fairlock/x/"))
	l.leave(t, held.Entry.Ref)
}

func TestEtcdDriverDeniedAtOnce(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	root := cluster.Client(t)
	ctx := t.Context()
	for _, err := range []error{
		second(root.RoleAdd(ctx, "locks")),
		second(root.RoleGrantPermission(ctx, "locks", "fairlock/", "fairlock0", clientv3.PermissionType(clientv3.PermReadWrite))),
		second(root.UserAdd(ctx, "root", "s3cret")), second(root.UserGrantRole(ctx, "root", "root")),
		second(root.UserAdd(ctx, "worker", "s3cret")), second(root.UserGrantRole(ctx, "worker", "locks")),
		second(root.UserAdd(ctx, "guest", "s3cret")),
		second(root.AuthEnable(ctx)),
	} {
		require.NoError(t, err)
	}
	as := func(user, password string) *clientv3.Client {
		c, err := cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.Username, cfg.Password = user, password
			cfg.DialTimeout = time.Minute // checking a password takes seconds under the race detector
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	t.Cleanup(func() { _, _ = as("root", "s3cret").AuthDisable(context.Background()) })

	worker := lease(t, as("worker", "s3cret"), nil, 30*time.Second)
	j := worker.join(t, "x")
	w := worker.watch(t, driver.WatchRequest{Ref: j.Entry.Ref, Own: true})
	w.next(t, driver.Armed)
	worker.leave(t, j.Entry.Ref)
	w.next(t, driver.Gone)

	guest := lease(t, as("guest", "s3cret"), nil, 30*time.Second)
	_, err := guest.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrDenied)

	_, err = etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: cluster.Endpoints(), Username: "worker", Password: "wr0ng", Timeout: time.Minute,
	}, nil)
	require.ErrorIs(t, err, driver.ErrDenied)
	assert.NotContains(t, err.Error(), "wr0ng")

	s, err := etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: cluster.Endpoints(), Username: "worker", Password: "s3cret", Timeout: time.Minute,
	}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func second[T any](_ T, err error) error { return err }

func TestEtcdDriverUnreachableIsNamed(t *testing.T) {
	begin := time.Now()
	_, err := etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: []string{"127.0.0.1:1"}, Timeout: 300 * time.Millisecond,
	}, nil)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	assert.ErrorContains(t, err, "127.0.0.1:1")
	assert.ErrorContains(t, err, "refused")
	assert.Less(t, time.Since(begin), 2*time.Second)
	t.Log(err)
}
