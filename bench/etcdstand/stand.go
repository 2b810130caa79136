// Package etcdstand has fairlock compete with the Mutex of etcd's own package
// concurrency.
package etcdstand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
)

// Service is etcd.
func Service() stand.Service {
	return stand.Service{
		Name: "etcd", Peer: "Mutex",
		Contestants: stand.Contestants("Mutex", "Mutex, one client"),
		Start:       start,
	}
}

// inFlight bounds the unary requests of all clients of a stand together. A
// server refuses more than 5000 proposals at a time, and 10 000 goroutines that
// join a line at once would find that out; and when each has it read a line of
// 10 000, a few hundred wait longer than it allows.
const inFlight = 64

// cluster is a cluster and the clients that run against it.
type cluster struct {
	*etcdtest.Cluster
	gate    chan struct{}
	control *clientv3.Client // looks at lines from the side; not counted
}

var _ stand.Stand = (*cluster)(nil)

func start(ctx context.Context, s stand.Setting) (stand.Stand, error) {
	c, err := etcdtest.Start(ctx, &etcdtest.Options{
		Members: s.Members(), Fsync: s.Fsync(), QuotaBytes: 8 << 30, Proxied: s.RTT() > 0, Processes: s.Outside,
	})
	if err != nil {
		return nil, err
	}
	if rtt := s.RTT(); rtt > 0 {
		for i := range c.Len() {
			c.Member(i).ClientProxy().Delay(fault.Both, rtt/2)
		}
	}
	control, err := c.NewClient(nil)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &cluster{Cluster: c, gate: make(chan struct{}, inFlight), control: control}, nil
}

// Version implements stand.Stand.
func (c *cluster) Version() string { return version.Version }

// Close implements stand.Stand.
func (c *cluster) Close() error { return errors.Join(c.control.Close(), c.Cluster.Close()) }

// Length implements stand.Stand. A line is a prefix of keys.
func (c *cluster) Length(ctx context.Context, line string) (int, error) {
	r, err := c.control.Get(ctx, line, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return 0, fmt.Errorf("count the line: %w", err)
	}
	return int(r.Count), nil
}

// Fill implements stand.Stand.
func (c *cluster) Fill(ctx context.Context, line string, n int) error {
	const batch = 100 // etcd refuses more than 128 operations
	for first := 0; first < n; first += batch {
		var puts []clientv3.Op
		for i := first; i < min(first+batch, n); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s%x", line, 1<<60+i), ""))
		}
		if _, err := c.control.Txn(ctx).Then(puts...).Commit(); err != nil {
			return fmt.Errorf("put %d keys: %w", n, err)
		}
	}
	return nil
}

// Clear implements stand.Stand.
func (c *cluster) Clear(ctx context.Context, line string) error {
	if _, err := c.control.Delete(ctx, line, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete the keys under %q: %w", line, err)
	}
	return nil
}

// clients returns n clients of all members, each with its tally. All get the
// same settings, whoever uses them.
func (c *cluster) clients(n int) ([]*clientv3.Client, []*stand.Tally, error) {
	var (
		clients []*clientv3.Client
		tallies []*stand.Tally
	)
	for range n {
		t := stand.NewTally(requestKinds(), watchCancel, watchProgress)
		client, err := c.NewClient(func(cfg *clientv3.Config) {
			cfg.DialOptions = append(cfg.DialOptions, counter{t, c.gate}.options()...)
			cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
		})
		if err != nil {
			return nil, nil, errors.Join(err, closeAll(clients))
		}
		clients, tallies = append(clients, client), append(tallies, t)
	}
	return clients, tallies, nil
}

func closeAll(clients []*clientv3.Client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
