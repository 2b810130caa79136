package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/next/etcdbackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

func TestWithNoSpaceLeftEntriesCanGo(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	o := open(t, client, nil, 30*time.Second)
	robust := o.join(t, driver.JoinRequest{Queue: "x", Detail: []byte("d"), Ops: []driver.Op{{Record: "ledger", If: driver.Absent(), Value: []byte("n")}}}).Entry.Ref
	waiting, plain := o.put(t, "x"), o.put(t, "y")
	valued := o.join(t, driver.JoinRequest{Queue: "z", Valued: true, Data: []byte("v")}).Entry.Ref
	own := o.watch(t, waiting.Target())
	own.next(t, driver.Armed)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(t.Context(), fmt.Sprint("fill", i), strings.Repeat("x", 1<<20))
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)

	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.ErrorContains(t, err, "NOSPACE")
		assert.ErrorContains(t, err, "disarm")
	}
	_, err = o.Join(t.Context(), driver.JoinRequest{Queue: "new"})
	refused(err)
	_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "z", Entry: valued, Data: []byte("w")})
	refused(err)
	_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "z", Ops: []driver.Op{{Record: "limit", If: driver.Absent(), Value: []byte("2")}}})
	refused(err)
	_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: waiting, Detail: []byte("granted")})
	require.NoError(t, err, "a detail is left out")
	assert.Equal(t, driver.Deleted, o.leave(t, robust, driver.Op{Record: "ledger", If: driver.Equal([]byte("n"))}))
	assert.Equal(t, driver.Deleted, o.leave(t, plain))
	assert.Equal(t, driver.Deleted, o.leave(t, waiting, driver.Op{Record: "done", If: driver.Absent(), Value: []byte("n")}), "what needs space is left out")
	own.next(t, driver.Gone)
	assert.Equal(t, 0, count(t, client, "fairlock/x/")+count(t, client, "fairlock/%v2/"))

	watcher, err := o.b.Open(t.Context(), driver.Config{Observer: true, Logger: config().Logger, Gone: func(error) {}})
	require.NoError(t, err, "an observer needs no lease")
	v, err := watcher.Read(t.Context(), driver.ReadRequest{Queue: "z", Detail: true, Fresh: true})
	require.NoError(t, err)
	left, err := watcher.Leave(t.Context(), driver.LeaveRequest{Ref: v.Entries[0].Ref, Any: true})
	require.NoError(t, err)
	assert.Equal(t, []driver.Left{driver.Deleted}, left)
	require.NoError(t, watcher.Close(t.Context()))
	_, err = o.b.Open(t.Context(), config())
	refused(err)
	assert.Empty(t, o.losses())
}

func TestAWrappedClientIsRefused(t *testing.T) {
	plain := etcdtest.New(t, nil).Client(t)
	for name, wrap := range map[string]func(*clientv3.Client){
		"KV":      func(c *clientv3.Client) { c.KV = namespace.NewKV(c.KV, "team/") },
		"Watcher": func(c *clientv3.Client) { c.Watcher = namespace.NewWatcher(c.Watcher, "team/") },
		"Lease":   func(c *clientv3.Client) { c.Lease = namespace.NewLease(c.Lease, "team/") },
	} {
		kv, watcher, lease := plain.KV, plain.Watcher, plain.Lease
		wrap(plain)
		_, err := etcdbackend.NewBackend(plain, nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
		assert.ErrorContains(t, err, "Options.Root")
		plain.KV, plain.Watcher, plain.Lease = kv, watcher, lease
	}
	_, err := etcdbackend.NewBackend(clientv3.NewCtxClient(t.Context()), nil)
	require.ErrorIs(t, err, session.ErrInvalidOptions)
	_, err = etcdbackend.NewBackend(plain, nil)
	require.NoError(t, err)
}

func TestAClosedClientEndsEveryCall(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, err := cluster.NewClient(nil)
	require.NoError(t, err)
	o := open(t, client, nil, 30*time.Second)
	ref := o.put(t, "x")
	o.watch(t, ref.Target()).next(t, driver.Armed)
	require.NoError(t, client.Close())

	forever := context.Background()
	for name, call := range map[string]func() error{
		"Join":  func() error { _, err := o.Join(forever, driver.JoinRequest{Queue: "y"}); return err },
		"Leave": func() error { _, err := o.Leave(forever, driver.LeaveRequest{Ref: ref}); return err },
		"Read":  func() error { _, err := o.Read(forever, driver.ReadRequest{Queue: "x"}); return err },
		"Names": func() error { _, err := o.Names(forever, ""); return err },
		"Update": func() error {
			_, err := o.Update(forever, driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared})
			return err
		},
		"Open":  func() error { _, err := o.b.Open(forever, config()); return err },
		"Close": func() error { return o.Close(forever) },
	} {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			require.Error(t, err, name)
			if name != "Close" {
				require.ErrorIs(t, err, driver.ErrClosed, name)
			}
		case <-time.After(5 * time.Second):
			require.Fail(t, name+" has not returned")
		}
	}
	require.Eventually(t, func() bool { return len(o.losses()) > 0 }, 5*time.Second, time.Millisecond)
	require.ErrorIs(t, o.losses()[0], driver.ErrClosed)
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	open := func(version string) error {
		client := clientWith(t, cluster, func(cfg *clientv3.Config) {
			hookStreams(cfg, func(m any) {
				if r, ok := m.(*pb.StatusResponse); ok {
					r.Version = version
				}
			})
		})
		b, err := etcdbackend.NewBackend(client, nil)
		require.NoError(t, err)
		s, err := b.Open(t.Context(), config())
		if err == nil {
			require.NoError(t, s.Close(t.Context()))
		}
		return err
	}
	require.NoError(t, open("3.4.0"))
	require.NoError(t, open("unknown"), "what cannot be read is not refused")
	for _, old := range []string{"3.3.27", "2.3.8"} {
		err := open(old)
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.ErrorContains(t, err, old)
	}
}

// Certificates that do not serve are refused, and Dial and Open return why.
func TestABadCertificateIsTheReason(t *testing.T) {
	good := etcdtest.New(t, &etcdtest.Options{TLS: true})
	expired := etcdtest.New(t, &etcdtest.Options{TLS: true, ServerCA: (*testnet.CA).Expired})
	other, err := testnet.NewCA(t.TempDir())
	require.NoError(t, err)
	shows := func(ca *testnet.CA) func(*etcdbackend.DialConfig) {
		cert, key, err := ca.Issue("other") // whose files nothing else writes
		require.NoError(t, err)
		return func(c *etcdbackend.DialConfig) { c.CertFile, c.KeyFile = cert, key }
	}
	for _, c := range []struct {
		reason  string
		cluster *etcdtest.Cluster
		edit    func(*etcdbackend.DialConfig)
	}{
		{"certificate signed by unknown authority", good, func(c *etcdbackend.DialConfig) { c.CAFile = other.File() }},
		{"certificate has expired", expired, func(*etcdbackend.DialConfig) {}},
		{"remote error: tls: certificate required", good, func(c *etcdbackend.DialConfig) { c.CertFile, c.KeyFile = "", "" }},
		{"remote error: tls: unknown certificate authority", good, shows(other)},
		{"remote error: tls: expired certificate", good, shows(good.CA().Expired())},
		{"connection refused", good, func(c *etcdbackend.DialConfig) { c.Endpoints = []string{"127.0.0.1:1"} }},
	} {
		cert, key, err := c.cluster.CA().Issue("worker")
		require.NoError(t, err)
		cfg := etcdbackend.DialConfig{
			Endpoints: c.cluster.Endpoints(), CAFile: c.cluster.CA().File(), CertFile: cert, KeyFile: key, Timeout: 2 * time.Second,
		}
		c.edit(&cfg)
		for _, user := range []string{"", "worker"} {
			if cfg.Username = user; user != "" {
				cfg.Password = "s3cret"
			}
			begin := time.Now()
			_, err := etcdbackend.Dial(t.Context(), cfg, nil)
			require.ErrorIs(t, err, session.ErrUnavailable, "%s as %q", c.reason, user)
			assert.ErrorContains(t, err, c.reason)
			assert.ErrorContains(t, err, cfg.Endpoints[0])
			assert.NotContains(t, err.Error(), "s3cret")
			assert.Less(t, time.Since(begin), 3*cfg.Timeout, "on a busy machine, not for ever")
		}
	}
}
