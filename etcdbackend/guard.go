package etcdbackend

import (
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

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
// There is one condition for each entry of the hold. For a hold that is lost or
// released there is also one that never holds. etcd allows 128 operations in a
// transaction by default, and counts conditions separately. The client must see the
// same keys as the session's client: with package namespace, the same prefix.
//
// Guard panics for a hold on another service, because no condition could be right.
func Guard(h *session.Hold) []clientv3.Cmp {
	inner := session.Engine(door.Key{}).Inner(h)
	refs := inner.Refs()
	if inner.Service() != "etcd" || len(refs) == 0 {
		panic(fmt.Sprintf("etcdbackend: Guard of a hold on %s with %d entries", inner.Service(), len(refs)))
	}
	cmps := make([]clientv3.Cmp, 0, len(refs)+1)
	for _, ref := range refs {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(ref.Key), "=", ref.Place))
	}
	// After Unlock the key may live for a moment until it is deleted, and after
	// a loss until the lease expires. Nobody may write under it then. No
	// revision is below 0.
	if h.Remaining() == 0 {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(refs[0].Key), "<", 0))
	}
	return cmps
}
