package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
)

// inFlight bounds the unary requests of all clients of a stand together. A
// server refuses more than 5000 proposals at a time, and 10 000 goroutines that
// join a line at once would find that out; and when each has it read a line of
// 10 000, a few hundred wait longer than it allows.
const inFlight = 64

// A stand is a cluster and the clients that run against it.
type stand struct {
	kind    clusterKind
	cluster *etcdtest.Cluster
	gate    chan struct{}
	control *clientv3.Client // looks at lines from the side; not counted
}

// options are what a kind of cluster means.
func (k clusterKind) options() etcdtest.Options {
	o := etcdtest.Options{Members: 1, QuotaBytes: 8 << 30}
	if k == three || k == threeFsync {
		o.Members = 3
	}
	o.Fsync = k == singleFsync || k == threeFsync
	return o
}

// newStand starts a cluster; edit may be nil.
func newStand(ctx context.Context, kind clusterKind, edit func(*etcdtest.Options)) (*stand, error) {
	o := kind.options()
	if edit != nil {
		edit(&o)
	}
	cluster, err := etcdtest.Start(ctx, &o)
	if err != nil {
		return nil, err
	}
	control, err := cluster.NewClient(nil)
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return &stand{kind: kind, cluster: cluster, gate: make(chan struct{}, inFlight), control: control}, nil
}

func (s *stand) close() error {
	return errors.Join(s.control.Close(), s.cluster.Close())
}

// A counted client.
type client struct {
	*clientv3.Client
	*tally
}

// clients returns n clients of all members, for the caller to close. All get
// the same settings, whoever uses them.
func (s *stand) clients(n int) ([]client, error) {
	cs := make([]client, 0, n)
	for range n {
		t := &tally{gate: s.gate}
		c, err := s.cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.DialOptions = append(cfg.DialOptions, t.options()...)
			cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
		})
		if err != nil {
			return nil, errors.Join(err, closeClients(cs))
		}
		cs = append(cs, client{c, t})
	}
	return cs, nil
}

func closeClients(cs []client) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// total is what all have sent.
func total(cs []client) counts {
	var sum counts
	for _, c := range cs {
		sum = sum.plus(c.now())
	}
	return sum
}

// joined waits until n entries are in the line whose keys begin with prefix.
func (s *stand) joined(ctx context.Context, prefix string, n int) error {
	pause := time.Millisecond
	if n > 1000 {
		pause = 20 * time.Millisecond // counting them all costs the server as well
	}
	for {
		r, err := s.control.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
		if err != nil {
			return fmt.Errorf("count the line: %w", err)
		}
		if int(r.Count) >= n {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d of %d have joined: %w", r.Count, n, err)
		}
	}
}

// quiet waits until clients have sent nothing for a while and wait for no
// answer: then everybody in line is where he wants to be. Keepalives do not
// count.
func (s *stand) quiet(ctx context.Context, cs []client, d time.Duration) error {
	for before := int64(-1); ; {
		now := total(cs).sum()
		if now == before && len(s.gate) == 0 {
			return nil
		}
		before = now
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

// put writes so many keys that begin with prefix.
func (s *stand) put(ctx context.Context, prefix string, n int) error {
	const batch = 100 // etcd refuses more than 128 operations
	for first := 0; first < n; first += batch {
		var puts []clientv3.Op
		for i := first; i < min(first+batch, n); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s%x", prefix, 1<<60+i), ""))
		}
		if _, err := s.control.Txn(ctx).Then(puts...).Commit(); err != nil {
			return fmt.Errorf("put %d keys: %w", n, err)
		}
	}
	return nil
}

// clear deletes all keys that begin with prefix.
func (s *stand) clear(ctx context.Context, prefix string) error {
	if _, err := s.control.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete the keys under %q: %w", prefix, err)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
