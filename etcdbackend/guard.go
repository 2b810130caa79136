package etcdbackend

import (
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

// Guard returns conditions for a transaction on the same cluster, which holds
// only if the lock does: then the write and the check are one, and no pause of
// this process can come between them.
//
//	resp, err := client.Txn(ctx).
//		If(etcdbackend.Guard(hold)...).
//		Then(clientv3.OpPut("orders/last", id)).
//		Commit()
//	if err == nil && !resp.Succeeded {
//		// The lock is lost. Nothing was written.
//	}
//
// There is one condition for each entry of the hold, and one more that never
// holds if the hold is over. etcd allows 128 operations in a transaction by
// default, conditions counted separately. The client must see the same keys as
// the session's: with package namespace, the same prefix.
//
// The guard of a hold that is lost or was given back never succeeds. Of a hold
// on another service it panics: there is no condition that could be right.
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
