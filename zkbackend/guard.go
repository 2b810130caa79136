package zkbackend

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

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
// There is one condition for each entry of the hold. For a hold that is lost or
// released there is also one that never holds. The paths are absolute: do not use a
// connection with a chroot of its own.
//
// Guard panics for a hold on another service, because no condition could be right.
func Guard(h *session.Hold) []*zk.CheckVersionRequest {
	inner := session.Engine(door.Key{}).Inner(h)
	refs := inner.Refs()
	if inner.Service() != service || len(refs) == 0 {
		panic(fmt.Sprintf("zkbackend: Guard of a hold on %s with %d entries", inner.Service(), len(refs)))
	}
	checks := make([]*zk.CheckVersionRequest, 0, len(refs)+1)
	for _, ref := range refs {
		checks = append(checks, &zk.CheckVersionRequest{Path: ref.Key, Version: -1})
	}
	// After Unlock the entry may live for a moment until it is deleted, and
	// after a loss until the session expires. Nobody may write under it then.
	if h.Remaining() == 0 {
		checks = append(checks, &zk.CheckVersionRequest{Path: refs[0].Key + over, Version: -1})
	}
	return checks
}

// over makes a path of an entry one that never exists: entries are ephemeral and
// have no children.
const over = "/over"
