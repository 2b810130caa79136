package etcdbackend

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// This file is the half of the first keys that writes them. The half that watches them is
// etcdbackend/internal/watch/first.go.
//
// # What they are for
//
// A waiter watches the entry ahead, and that entry ends. Is it the waiter's turn? Only if no
// other is ahead, and the end of one entry does not show that: a waiter between others may
// have given up. So the waiter would have to read the queue before it holds. That is one round
// trip more for each hand-off, while the lock is free and all wait.
//
// The owner of the entry knew more: at some time no entry was ahead of its own. So when it
// leaves, the entry right behind is the first. The owner writes that down, in the transaction
// that deletes the entry, into a key next to the queue: the first key of the entry, with the
// entry's place as value. A waiter that watches this key too learns both in one moment, and
// holds without a read.
//
// With them, ten sessions take 1 request for each hand-off; without, 2 from the third on. With
// a round trip of 4 ms a hand-off took 5.0 ms instead of 9.7.
//
// # Who writes one, and who watches one
//
//	a join finds ahead   it is released with its first key   waiters of its session watch one
//	0 or 1               no                                  no
//	2                    yes                                 no
//	3 and more           yes                                 yes
//
// With at most two ahead, a waiter watches both: that needs no read either, and fewer events.
// Behind three, it watches the nearest, which has itself joined behind two at least: so each
// entry whose first key is watched writes it. A request for permits does not wait for the
// entry ahead, and takes no part. Only own entries write one, and only a Leave with First.
//
// # The states of a first key
//
//	absent                  it was never written, or was swept
//	the place of an entry   that entry was first, and has left. The next entry with the same
//	                        key (see own) writes its own place there when it leaves
//
// The value names one entry by its place, so an old value, or an event that is late, shows
// nothing of a later entry: the watch compares the places. The key is on the lease of the
// session that writes it. remains deletes it when it was not used for 2 to 4 s, and not at each
// release: the next one would have to write it again.
//
// # What each outcome leaves behind
//
//	Deleted               the key, with the place: the waiter holds without a read
//	WasGone               nothing is written: the waiter reads
//	not answered          the attempt wrote both or nothing; the next one finds the entry, or
//	                      is Unclear, and writes nothing
//	denied, NOSPACE       the next attempt only deletes: nothing is written, the waiter reads
//	the session ends      the lease takes the entry and the key: the waiter reads
//	the watch of it is    the key: the waiter reads
//	denied, or too late
//
// Each error in this is one read more, and never a wrong grant.
//
// Not handled: a key that an attempt without an answer has written, if the next one is denied.
// It stays until the entry's key is used again, or until the session ends.

// useFirstKeys decides what o, which has joined behind so many others, has to do with first
// keys. The caller holds the mutex of queues.
func (o *own) useFirstKeys(ahead int64) {
	waitsForOne := o.mode != driver.Weighted
	o.writesFirst = waitsForOne && ahead > 1
	o.q.watchesFirst = waitsForOne && ahead > 2
}

// firstKey returns the first key of an entry.
func (q *queue) firstKey(entry string) []byte {
	return []byte(q.side + firstFolder + entry[len(q.prefix):])
}

// putFirst writes the first key of an entry that leaves.
func (e *exit) putFirst() *pb.RequestOp {
	return opPut(e.first, strconv.AppendInt(nil, e.ref.Place, 10), e.own.lease)
}

// remains are the first keys that a session has written. It deletes those that it has not used
// for a while: within the TTL, nothing is left of a request.
type remains struct {
	s     *etcdSession
	every time.Duration // the time between two sweeps: a key is deleted one or two of them after its use

	mu sync.Mutex

	// used are the keys that were written since the last sweep. Those that were written in the
	// interval before are in the variable of sweep.
	used map[string]bool

	// sweeping: a goroutine sweeps. It ends when no key is left, and the next add starts one.
	sweeping bool
}

// sweepTime is the most time between two sweeps.
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
// A key that is written while a sweep deletes it is in used, so a later sweep deletes it again. A
// waiter that watches it has the event of the write all the same.
func (r *remains) sweep(ctx context.Context) {
	var old map[string]bool // the keys that were written in the interval before the last sweep
	for {
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
