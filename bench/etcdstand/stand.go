// Package etcdstand has fairlock compete with the Mutex of etcd's own package
// concurrency.
package etcdstand

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/bench/stand"
)

// Service is etcd.
func Service() stand.Service {
	return stand.Service{
		Name: "etcd", Peer: "Mutex",
		Contestants: stand.Contestants("Mutex", "Mutex, one client"),
		Attach:      attach,
	}
}

// inFlight bounds the unary requests of all clients of a stand together. A
// server refuses more than 5000 proposals at a time, and 10 000 goroutines that
// join a line at once would find that out; and when each has it read a line of
// 10 000, a few hundred wait longer than it allows.
const inFlight = 64

// cluster is a cluster and the clients that run against it.
type cluster struct {
	at      stand.Addresses
	gate    chan struct{}
	control *clientv3.Client // looks at lines from the side; not counted
}

var _ stand.Stand = (*cluster)(nil)

func attach(_ context.Context, at stand.Addresses) (stand.Stand, error) {
	control, err := newClient(at.Direct)
	if err != nil {
		return nil, err
	}
	return &cluster{at: at, gate: make(chan struct{}, inFlight), control: control}, nil
}

// newClient returns a client that logs nothing, with the settings that all have.
func newClient(endpoints []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialOptions:       append(opts, grpc.WithIdleTimeout(0)),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("client of %q: %w", endpoints, err)
	}
	return client, nil
}

// Close implements stand.Stand.
func (c *cluster) Close() error { return c.control.Close() }

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
		client, err := newClient(c.at.Clients, counter{t, c.gate}.options()...)
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
