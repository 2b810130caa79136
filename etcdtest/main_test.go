package etcdtest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
)

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks waits for the goroutines between embedded members that are not proxied:
// Close documents that they may take 5 seconds. It returns 1 if any are left
// after hang.Guard.
func leaks() int {
	var err error
	for end := time.Now().Add(hang.Guard); time.Now().Before(end); {
		if err = goleak.Find(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// only returns a client of one member, past its proxy.
func only(t *testing.T, c *etcdtest.Cluster, i int) *clientv3.Client {
	t.Helper()
	client, err := c.NewClient(func(cfg *clientv3.Config) {
		cfg.Endpoints = []string{c.Member(i).Direct()}
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func leader(t *testing.T, c *etcdtest.Cluster) int {
	t.Helper()
	i, err := c.Leader(hang.Context(t))
	require.NoError(t, err)
	return i
}

// works checks that the cluster accepts a write and that a linearizable read
// returns it.
func works(t *testing.T, client *clientv3.Client) {
	t.Helper()
	_, err := client.Put(hang.Context(t), "key", "value")
	require.NoError(t, err)
	got, err := client.Get(hang.Context(t), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	require.Equal(t, "value", string(got.Kvs[0].Value))
}

// recovers waits until the cluster works through a client after a fault. A
// member that has just come back may lose a proposal: it keeps it for a
// leadership that it has lost, or has no connection to the leader yet. etcd
// answers such a request with a timeout after 7 s, so each attempt has a second, and on a
// slow machine more.
func recovers(t *testing.T, client *clientv3.Client) {
	t.Helper()
	allowed := time.Second
	hang.Until(t, func() bool {
		_, err := client.Put(hang.Ending(t, allowed), "key", "value")
		allowed += time.Second / 2
		return err == nil
	}, "the cluster accepts no write")
	works(t, client)
}
