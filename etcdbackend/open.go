package etcdbackend

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Open opens a Session on a client of the caller. The Session never closes the client;
// close the Session first. opts may be nil. Open returns an error that wraps
// session.ErrInvalidOptions (nothing was sent), session.ErrDenied, session.ErrRefused
// (etcd's quota is used up, or the server is older than 3.5.8 or 3.4.25) or
// session.ErrUnavailable, which names the endpoints. The last comes when ctx ends
// (after 5 s if it has no deadline).
func Open(ctx context.Context, client *clientv3.Client, opts *Options) (*session.Session, error) {
	b, err := NewBackend(client, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, b, opts)
}

// open gives a backend to a Session, which owns it from then on.
func open(ctx context.Context, b driver.Backend, opts *Options) (*session.Session, error) {
	var o session.Options
	if opts != nil {
		o = opts.Session
	}
	s, err := session.Engine(door.Key{}).Open(ctx, b, &o)
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: %w", err)
	}
	return s, nil
}
