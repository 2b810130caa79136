package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// dialTimeout bounds what a client does before its first request.
const dialTimeout = time.Minute

// Cluster is a running etcd of one or more members. Its methods are safe for concurrent
// use.
type Cluster struct {
	opts    Options
	dir     *testserver.Dir
	binary  string      // of the server, with Options.Processes
	ca      *testnet.CA // with Options.TLS or Options.Proxied
	tls     *tls.Config
	members []*Member
	close   func() error
}

// New starts a cluster for a test, and closes it after the test and all cleanups that
// were registered later. It fails the test if the cluster does not start.
func New(t testing.TB, opts *Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Start starts a cluster and returns when every member has joined it and answers
// linearizable reads. If a
// member ends, if there is no progress within Options.StartTimeout, or if ctx ends, Start
// returns the reason with the end of the member's log, and leaves nothing behind. ctx bounds
// only the start.
func Start(ctx context.Context, opts *Options) (*Cluster, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := start(ctx, o)
		if err == nil {
			return c, nil
		}
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

// start is one attempt at Start, with ports of its own.
func start(ctx context.Context, opts Options) (*Cluster, error) {
	c := newCluster(opts)
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close(), c.discard())
	}
	progressing, cancel := testserver.Progressing(ctx, opts.StartTimeout, c.progress)
	defer cancel()
	if err := c.launch(progressing); err != nil {
		return nil, errors.Join(err, c.Close(), c.discard())
	}
	return c, nil
}

func newCluster(opts Options) *Cluster {
	c := &Cluster{opts: opts}
	c.close = sync.OnceValue(c.shutdown)
	return c
}

// prepare makes everything that the members need before they can start.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	// Certificates need a directory of our own, even with Options.Dir.
	c.dir, err = testserver.MakeDir("etcdtest", !c.opts.Fsync)
	if err != nil {
		return err
	}
	if c.opts.Processes {
		c.binary, err = build(ctx, c.dir.Path())
		if err != nil {
			return err
		}
	}
	if c.opts.TLS || c.opts.Proxied {
		c.ca, err = testnet.NewCA(c.dir.Path())
		if err != nil {
			return err
		}
	}
	if c.opts.TLS {
		c.tls, err = c.ca.Client("root")
		if err != nil {
			return err
		}
		c.tls.InsecureSkipVerify = c.opts.ServerCA != nil
	}
	c.members, err = newMembers(ctx, c)
	return err
}

// progress grows while members start: with the log of each, and when one is ready.
func (c *Cluster) progress() (all int) {
	for _, m := range c.members {
		if m.ready.Load() {
			all++
		}
		s := m.running()
		if s != nil {
			_, n := s.logged()
			all += n
		}
	}
	return all
}

// launch starts the members one after the other. A member that listens but does not
// serve yet costs each other member that asks it a timeout of a second.
func (c *Cluster) launch(ctx context.Context) error {
	voters := c.members[:c.opts.Members]
	for _, m := range voters {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	for _, m := range voters {
		if err := m.waitReady(ctx); err != nil {
			return err
		}
	}
	for _, m := range c.members[c.opts.Members:] {
		if err := c.addLearner(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// addLearner adds a learner to the running cluster, and starts it. etcd refuses that while its
// members have not been connected for some seconds.
func (c *Cluster) addLearner(ctx context.Context, m *Member) error {
	client, err := c.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = cfg.Endpoints[:c.opts.Members] })
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing of it is left
	for {
		_, err := client.MemberAddAsLearner(ctx, []string{m.spec.AdvertisePeer})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("etcdtest: add the learner %q: %w", m.Name(), err)
		case <-time.After(pollEvery):
		}
	}
	if err := m.start(ctx); err != nil {
		return err
	}
	return m.waitReady(ctx)
}

// Endpoints returns the client addresses of all members, through the proxies if there
// are any.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, len(c.members))
	for i, m := range c.members {
		endpoints[i] = m.Endpoint()
	}
	return endpoints
}

// Len returns the number of members.
func (c *Cluster) Len() int { return len(c.members) }

// Member returns member i, counted from 0. It panics if there is none.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// CA returns the authority that signs the certificates of clients with Options.TLS; nil
// without Options.TLS and Options.Proxied.
func (c *Cluster) CA() *testnet.CA { return c.ca }

// Client returns a client of all members. It is closed when the test ends, before a
// cluster that New started earlier. Client fails the test if it cannot make one.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := c.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test may close its client too; then Close returns "canceled".
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return client
}

// NewClient returns a client of all members that logs nothing. It stops dialling after
// a minute, keeps an idle connection, which gRPC otherwise closes after half an hour,
// and with Options.TLS is the user "root". edit may change its configuration; it may be
// nil. The caller closes the client.
func (c *Cluster) NewClient(edit func(*clientv3.Config)) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:   c.Endpoints(),
		DialTimeout: dialTimeout,
		Logger:      zap.NewNop(),
		TLS:         c.tls.Clone(), // nil without TLS
		DialOptions: []grpc.DialOption{grpc.WithIdleTimeout(0)},
	}
	if edit != nil {
		edit(&cfg)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdtest: client: %w", err)
	}
	return client, nil
}

// Close stops all members at once, without notice to clients or to each other, and
// removes what Start has made. Further calls return the first result. Close takes a
// tenth of a second, and for several embedded members that are not Proxied one second
// more: etcd waits that long for connections between members, and up to 5 s later some
// of its goroutines still wait for them.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) shutdown() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.closeProxies())
	}
	// Stop all members before closing any: a leader that finds a live follower would
	// hand over its leadership first, and wait for that.
	each(c.members, (*Member).halt)
	each(c.members, (*Member).close)
	if c.dir != nil {
		errs = append(errs, c.dir.Remove())
	}
	return errors.Join(errs...)
}

// discard removes the data from Options.Dir. The next attempt has other addresses, and
// members with the data of this one would not start.
func (c *Cluster) discard() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, os.RemoveAll(m.spec.Dir))
	}
	return errors.Join(errs...)
}

// each calls f for all members at the same time.
func each(members []*Member, f func(*Member)) {
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() { f(m) })
	}
	wg.Wait()
}
