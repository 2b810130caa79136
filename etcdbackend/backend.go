package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// backend is one client and one layout. Nothing in it changes after its Session was opened.
type backend struct {
	// lease is that which the first session takes over; 0 if there is none, and from then on.
	lease int64

	client *clientv3.Client
	owned  bool    // Close closes the client: Dial has made it
	files  secrets // of a client that Dial has made
	lay    layout
	rpc    *rpc.Client // all requests go through it, and none through the client's own parts
}

// NewBackend returns the backend that Open uses, for the conformance suite and for tools.
// The client stays the caller's, and must be closed later than the backend.
func NewBackend(client *clientv3.Client, opts *Options) (driver.Backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: %w", err)
	}
	return newBackend(client, o)
}

func newBackend(client *clientv3.Client, o Options) (*backend, error) {
	r, err := rpc.New(client, driver.SystemClock())
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: %w: %w", session.ErrInvalidOptions, err)
	}
	b := &backend{lease: int64(o.Lease), client: client, lay: layout{root: escape(o.Root), kind: o.Layout}, rpc: r}
	r.Hint = fmt.Sprintf("READWRITE on the prefix %q", b.lay.root+"/")
	if o.Layout == LayoutConcurrency {
		r.Hint += " and on that of the lock"
	}
	return b, nil
}

// Info implements driver.Backend.
//
// The margin covers a leader that hands over and is cut off at once: the new one then
// counts leases from up to one election timeout (1 s by default) before the last renewal
// that the old one acknowledged.
func (b *backend) Info() driver.Info {
	return driver.Info{
		Service: "etcd",
		Clock:   b.rpc.Clock,
		MinTTL:  2 * time.Second,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, time.Second) },
		MaxJoin: maxJoin,
		MaxData: maxData,
		Keeps:   driver.Keeps{Exclusion: driver.Always, Order: driver.Always, Tokens: driver.Always},
		Within:  b.lay.within,
	}
}

// CheckName implements driver.Backend.
func (b *backend) CheckName(name string) error { return b.lay.check(name) }

// Close implements driver.Backend.
func (b *backend) Close() error {
	b.rpc.Close()
	if !b.owned {
		return nil
	}
	err := b.client.Close()
	// It returns the error of the client's context, which it has cancelled itself.
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcdbackend: close the client: %w", err)
	}
	return nil
}
