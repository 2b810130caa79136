// Package etcdstand compares fairlock with the Mutex of etcd's own package concurrency.
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

// Service returns etcd.
func Service() stand.Service {
	return stand.Service{
		Name: "etcd", Peer: "Mutex",
		Contestants: stand.Contestants("Mutex", "Mutex, one client"),
		Attach:      attach,
	}
}

// inFlight bounds the unary requests of all clients of a stand together. A server refuses more
// than 5000 proposals at a time, and 10 000 goroutines may join a queue at once. If each of them
// has the server read a queue of 10 000, a few hundred would wait longer than the server allows.
const inFlight = 64

// cluster is a cluster, with a client for the stand itself.
type cluster struct {
	at      stand.Addresses
	gate    chan struct{}
	control *clientv3.Client // not counted
}

var _ stand.Stand = (*cluster)(nil)

func attach(_ context.Context, at stand.Addresses) (stand.Stand, error) {
	control, err := newClient(at.Direct)
	if err != nil {
		return nil, err
	}
	return &cluster{at: at, gate: make(chan struct{}, inFlight), control: control}, nil
}

// newClient returns a client that logs nothing. All clients have these settings.
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

// Length implements stand.Stand. A queue is a prefix of keys.
func (c *cluster) Length(ctx context.Context, queue string) (int, error) {
	r, err := c.control.Get(ctx, queue, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return 0, fmt.Errorf("count the queue: %w", err)
	}
	return int(r.Count), nil
}

// Fill implements stand.Stand.
func (c *cluster) Fill(ctx context.Context, queue string, n int) error {
	const batch = 100 // etcd refuses more than 128 operations
	for first := 0; first < n; first += batch {
		var puts []clientv3.Op
		for i := first; i < min(first+batch, n); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s%x", queue, 1<<60+i), ""))
		}
		if _, err := c.control.Txn(ctx).Then(puts...).Commit(); err != nil {
			return fmt.Errorf("put %d keys: %w", n, err)
		}
	}
	return nil
}

// Clear implements stand.Stand.
func (c *cluster) Clear(ctx context.Context, queue string) error {
	if _, err := c.control.Delete(ctx, queue, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete the keys under %q: %w", queue, err)
	}
	return nil
}

// clients returns n clients of all members, each with its tally. All contestants get the same
// settings.
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
