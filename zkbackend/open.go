package zkbackend

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Open opens a Session on the servers, each "host:port" (or "host", for port 2181) in a
// string of its own; a path belongs into Options.Root. opts may be nil. Open returns an
// error that wraps session.ErrInvalidOptions (nothing was sent), session.ErrDenied (the
// servers refuse a login, or require one that Auth and TLS do not have; this package has
// none by SASL), session.ErrRefused (the servers' limits leave too short a session
// timeout) or session.ErrUnavailable, which contains the reason for each server. The last
// comes when ctx ends (after 5 s if it has no deadline).
func Open(ctx context.Context, servers []string, opts *Options) (*session.Session, error) {
	b, err := NewBackend(servers, opts)
	if err != nil {
		return nil, err
	}
	var o session.Options
	if opts != nil {
		o = opts.Session
	}
	s, err := session.Engine(door.Key{}).Open(ctx, b, &o)
	if err != nil {
		return nil, fmt.Errorf("zkbackend: %w", err)
	}
	return s, nil
}

// Guard returns conditions for a transaction on the same ensemble. The transaction
// succeeds only if the lock is held, so the check and the write are one step, and no
// pause of this process can come between them.
//
//	ops := []any{&zk.SetDataRequest{Path: "/orders/last", Data: id, Version: -1}}
//	for _, c := range zkbackend.Guard(hold) {
//		ops = append(ops, c)
//	}
//	_, err := conn.Multi(ops...)
//	if errors.Is(err, zk.ErrNoNode) {
//		// The lock is lost. Nothing was written.
//	}
//
// There is one condition for each entry of the hold. For a hold that is lost or released
// there is also one that never holds. The conditions of a writer fail with
// zk.ErrBadVersion once it was downgraded: ask for new ones. They fail as well, as long as
// the hold lasts, if another program has written the writer's entry, as Curator's Revoker
// does; it can where a hand-off reads the queue, see Options.ACL. The paths are absolute:
// do not use a connection with a chroot of its own.
//
// Guard panics for a hold on another service, because no condition could be right.
func Guard(h *session.Hold) []*zk.CheckVersionRequest {
	inner := session.Engine(door.Key{}).Hold(h)
	refs := inner.Tie()
	if inner.Engine().Info().Service != service || len(refs) == 0 {
		panic(fmt.Sprintf("zkbackend: Guard of a hold on %s with %d entries", inner.Engine().Info().Service, len(refs)))
	}
	checks := make([]*zk.CheckVersionRequest, 0, len(refs)+1)
	for _, ref := range refs {
		checks = append(checks, condition(ref, h.Mode()))
	}
	// The entry may exist for a moment after Unlock, and after a loss until the session expires.
	// No write may succeed then.
	if h.Remaining() == 0 {
		checks = append(checks, &zk.CheckVersionRequest{Path: refs[0].Key + neverThere, Version: -1})
	}
	return checks
}

// condition returns the condition that an entry exists, and is still held in that mode.
//
//	the entry                    held as     requires
//	a writer                     Exclusive   version 0: the node was not written since it was made
//	a writer that became a       Shared      that the node exists
//	reader
//	another                      either      that the node exists
//
// A downgrade makes the node anew and raises its version. A write that the writer has prepared must fail
// then, because others may read. Of an entry without a seal other clients can raise the version too: see
// seal.go.
func condition(ref driver.Ref, mode session.Mode) *zk.CheckVersionRequest {
	c := &zk.CheckVersionRequest{Path: ref.Key, Version: -1}
	n, ok := nameOf(ref)
	if ok && n.downgrades() && mode == session.Exclusive {
		c.Version = 0
	}
	return c
}
