package etcdbackend

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// When an entry leaves that was first, the transaction that deletes it also writes its place
// into a key in firstFolder. A waiter that watches this key knows at the same moment that the
// entry is gone and that no other is ahead, and so needs no read before it holds.
//
// The key is on the lease of the session. Its next use writes it again, so nothing deletes it
// in between.

// remains are such keys that a session has written. It deletes those that it has not used
// for a while.
type remains struct {
	s     *etcdSession
	every time.Duration // the time between two sweeps: a key is deleted one or two of them after its use

	mu       sync.Mutex
	used     map[string]bool // since the last sweep
	sweeping bool            // a goroutine is
}

// sweepTime is the most time between two sweeps. Within the TTL, nothing is left of a request.
const sweepTime = 2 * time.Second

// add records that a key was written.
func (r *remains) add(key []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = make(map[string]bool)
	}
	r.used[string(key)] = true
	if !r.sweeping {
		r.sweeping = r.s.hub.Go(r.sweep)
	}
}

// sweep deletes keys until there are none left. Those that it cannot delete end with the lease.
func (r *remains) sweep(ctx context.Context) {
	for old := map[string]bool(nil); ; {
		if !driver.Sleep(ctx, r.s.cluster.Clock, r.every) {
			return
		}
		r.mu.Lock()
		used := r.used
		r.used = nil
		r.sweeping = len(old)+len(used) > 0
		r.mu.Unlock()
		if len(old)+len(used) == 0 {
			return
		}
		var unused []*pb.RequestOp
		for key := range old {
			if !used[key] {
				unused = append(unused, opDelete([]byte(key)))
			}
		}
		for part := range slices.Chunk(unused, chunk) {
			_, _ = r.s.cluster.txn(ctx, &pb.TxnRequest{Success: part})
		}
		old = used
	}
}
