package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// backend is one client and one layout.
type backend struct {
	supported atomic.Bool // the version of a server is known, and new enough

	client  *clientv3.Client
	owned   bool // Close closes the client
	lay     layout
	clock   driver.Clock
	kv      store
	plain   bool                        // the client's KV and Watcher are etcd's own; see isPlain
	leases  bool                        // and so is its Lease
	knock   func(context.Context) error // why the cluster cannot be reached, nil if there is no such way to ask
	leader  metadata.MD                 // what clientv3.WithRequireLeader adds; never changed
	learned learned                     // how long answers take
}

var _ driver.Backend = (*backend)(nil)

// NewBackend returns the backend that Open uses, for the conformance suite and for
// tools. The client stays the caller's, and must be closed later than the backend.
func NewBackend(client *clientv3.Client, opts *Options) (driver.Backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: %w", err)
	}
	if client == nil || client.KV == nil || client.Lease == nil || client.Watcher == nil {
		return nil, errors.New("etcdbackend: the client is nil or lacks its KV, Lease or Watcher")
	}
	return newBackend(client, o), nil
}

func newBackend(client *clientv3.Client, o Options) *backend {
	b := &backend{
		client: client,
		lay:    layout{root: escape(o.Root), kind: o.Layout},
		leader: metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader),
		clock:  driver.SystemClock(),
		plain:  isPlain(client),
		leases: client.ActiveConnection() != nil &&
			reflect.TypeOf(client.Lease) == reflect.TypeOf(clientv3.NewLeaseFromLeaseClient(nil, nil, 0)),
	}
	b.kv = indirect{client.KV}
	if b.plain {
		b.kv = direct{pb.NewKVClient(client.ActiveConnection())}
	}
	return b
}

// isPlain says that nobody put something of his own between us and the store,
// such as package namespace, which renames keys. Only then may requests be sent
// on the client's connection directly.
func isPlain(c *clientv3.Client) bool {
	return c.ActiveConnection() != nil &&
		reflect.TypeOf(c.KV) == reflect.TypeOf(clientv3.NewKVFromKVClient(nil, nil)) &&
		reflect.TypeOf(c.Watcher) == reflect.TypeOf(clientv3.NewWatchFromWatchClient(nil, nil))
}

// Profile implements driver.Backend.
//
// The margin covers a leader that hands over and is cut off at once: the new
// one then counts leases from up to one election timeout (1 s by default)
// before the last renewal that the old one acknowledged.
func (b *backend) Profile() driver.Profile {
	return driver.Profile{
		Service: "etcd",
		MinTTL:  2 * time.Second,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, time.Second) },
		Ordered: b.plain,
		Ends:    true,
		Within:  b.lay.within,

		MaxAll:   maxAll,
		MaxValue: maxValue,
	}
}

// Clock implements driver.Backend.
func (b *backend) Clock() driver.Clock { return b.clock }

// CheckName implements driver.Backend.
func (b *backend) CheckName(name string) error { return b.lay.check(name) }

// Close implements driver.Backend.
func (b *backend) Close() error {
	if !b.owned {
		return nil
	}
	// The client's answer is that its context has ended, which is no news.
	if err := b.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcdbackend: close the client: %w", err)
	}
	return nil
}

// maxAll is the most entries that are made at once. etcd takes 128 operations in
// a transaction unless it is told otherwise, and an entry takes two or three.
const maxAll = 32

// requireLeader is clientv3.WithRequireLeader, without a copy in the usual case.
func (b *backend) requireLeader(ctx context.Context) context.Context {
	if _, ok := metadata.FromOutgoingContext(ctx); ok {
		return clientv3.WithRequireLeader(ctx)
	}
	return metadata.NewOutgoingContext(ctx, b.leader)
}

// maxTokens is how often a request is tried again with a login that the client
// had to renew.
const maxTokens = 3

// ask makes attempts at a request that may be carried out more than once, until
// it is answered, cannot be, or ctx ends.
func (b *backend) ask(ctx context.Context, p pace, f func(context.Context) error) error {
	tokens := 0
	for n := 0; ; n++ {
		err := b.once(ctx, p, n, f)
		if err == nil {
			return nil
		}
		switch classify(err) {
		case unknown, notDone:
		case badToken:
			if tokens++; tokens > maxTokens {
				return translate(err)
			}
		case denied:
			return b.lay.explain(translate(err))
		case sessionOver, refused, full:
			return translate(err)
		}
		if err := b.pause(ctx, n, err); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt. It returns an error if there is to be
// none: ctx has ended, or the client was closed.
func (b *backend) pause(ctx context.Context, attempt int, last error) error {
	if ctx.Err() == nil && b.client.Ctx().Err() == nil {
		d := 5 * time.Millisecond << min(attempt, 6)
		driver.Sleep(ctx, b.clock, d/2+rand.N(d))
	}
	switch {
	case b.client.Ctx().Err() != nil:
		return fmt.Errorf("%w: %w", driver.ErrClosed, errClientClosed)
	case ctx.Err() == nil:
		return nil
	case isTimeout(last):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w (last answer: %w)", driver.ErrUnavailable, context.Cause(ctx), last)
}

// isTimeout says that an error tells no more than that an attempt took too long.
func isTimeout(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
