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
// (etcd's quota is used up, or the server is older than 3.4) or session.ErrUnavailable,
// which names the endpoints and the reason. The last comes when ctx ends (after 5 s if it
// has no deadline).
func Open(ctx context.Context, client *clientv3.Client, opts *Options) (*session.Session, error) {
	b, err := NewBackend(client, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, b, opts)
}

// open gives a backend to a Session, which owns it from then on: also after an error, it is
// closed by the Session, with the client that Dial has made.
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

// Guard returns conditions for a transaction on the same cluster. The transaction
// succeeds only if the lock is held, so the check and the write are one step, and no
// pause of this process can come between them.
//
//	resp, err := client.Txn(ctx).
//		If(etcdbackend.Guard(hold)...).
//		Then(clientv3.OpPut("orders/last", id)).
//		Commit()
//	if err == nil && !resp.Succeeded {
//		// The lock is lost. Nothing was written.
//	}
//
// There is one condition for each entry of the hold. For a hold that is lost or released
// there is also one that never holds. etcd allows 128 operations in a transaction by
// default, and counts conditions separately.
//
// Guard panics for a hold on another service, because no condition could be right.
func Guard(h *session.Hold) []clientv3.Cmp {
	inner := session.Engine(door.Key{}).Hold(h)
	refs := inner.Tie()
	if inner.Engine().Info().Service != "etcd" || len(refs) == 0 {
		panic(fmt.Sprintf("etcdbackend: Guard of a hold on %s with %d entries", inner.Engine().Info().Service, len(refs)))
	}
	cmps := make([]clientv3.Cmp, 0, len(refs)+1)
	for _, ref := range refs {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(ref.Key), "=", ref.Place))
	}
	// After Unlock the key may live for a moment until it is deleted, and after a loss
	// until the lease expires. Nothing may be written under it then. No revision is below
	// 0.
	if h.Remaining() == 0 {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(refs[0].Key), "<", 0))
	}
	return cmps
}
