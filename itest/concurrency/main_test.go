package concurrency_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work())
	}
	goleak.VerifyTestMain(m)
}

// fixture is one etcd with a client.
type fixture struct {
	t       *testing.T
	cluster *etcdtest.Cluster
	client  *clientv3.Client
}

func newFixture(t *testing.T, o *etcdtest.Options) *fixture {
	t.Helper()
	c := etcdtest.New(t, o)
	return &fixture{t: t, cluster: c, client: c.Client(t)}
}

// session opens a Session of its own, which is orphaned at the end of the test if it is not over.
func (f *fixture) session(opts ...concurrency.SessionOption) *concurrency.Session {
	f.t.Helper()
	return f.sessionOn(f.client, opts...)
}

func (f *fixture) sessionOn(client *clientv3.Client, opts ...concurrency.SessionOption) *concurrency.Session {
	f.t.Helper()
	patient := concurrency.WithContext(f.soon()) // without a deadline it gives up after 5 s
	s, err := concurrency.NewSession(client, append([]concurrency.SessionOption{concurrency.WithTTL(30), patient}, opts...)...)
	require.NoError(f.t, err)
	f.t.Cleanup(s.Orphan)
	return s
}

// soon is a context for what must come.
func (f *fixture) soon() context.Context { return recipetest.Bounded(f.t) }

// revoke ends a lease as an operator may.
func (f *fixture) revoke(s *concurrency.Session) {
	f.t.Helper()
	_, err := f.client.Revoke(f.soon(), s.Lease())
	require.NoError(f.t, err)
}

// keys returns the keys with a prefix, in the order in which they were made.
func (f *fixture) keys(prefix string) (all []string) {
	f.t.Helper()
	resp, err := f.client.Get(f.soon(), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(f.t, err)
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// queued waits until a prefix has n keys.
func (f *fixture) queued(prefix string, n int) {
	f.t.Helper()
	recipetest.Until(f.t, "keys in the queue", func() bool { return len(f.keys(prefix)) == n })
}

// holds reports whether the condition of a Mutex holds.
func (f *fixture) holds(m *concurrency.Mutex) bool {
	f.t.Helper()
	resp, err := f.client.Txn(f.soon()).If(m.IsOwner()).Commit()
	require.NoError(f.t, err)
	return resp.Succeeded
}

// inBackground calls f in a goroutine.
func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// blocked requires that a call has not returned.
func blocked(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		assert.Fail(t, "it has returned", "%v", err)
	default:
	}
}
