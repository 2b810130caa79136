package zkbackend

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// ownKey is how an entry of the session is known before it has a number.
type ownKey struct{ queue, guid string }

// ownEntry is what the session knows of an entry of its own. Only the caller of Update and
// Leave, which makes one call at a time, reads and writes what is not atomic.
type ownEntry struct {
	data    []byte       // as joined, of entries that may get a mark
	token   int64        //
	marks   driver.Marks // that it is known to have
	version int32        // how often its data was written since it was made
	detail  int32        // how often its detail was written; 0: there is none, as far as is known
	tried   bool         // an attempt to make it was perhaps carried out
	holder  atomic.Bool  // there may be a node among the holders
	leaving atomic.Bool  // Leave was called, and deletes that node too

	cleared chan struct{} // of debris that is being deleted: closed after that; nil otherwise
}

// registry has the session's own entries, from before each is made until it is certain
// that it is gone.
//
// A join whose answer was lost is looked for by Sync and a listing on a newer connection.
// If its entry is not there, it may still come: a server with Netty, which TLS needs, goes
// on with what it has read of a connection when the newer one is there. Then an entry
// appears that no caller knows, and its queue would wait for it until the session ends.
// Such an entry is debris. The session recognises it by its owner, which is this session,
// and by its name, which is not registered. Names have a random part, so the deletion of
// debris never hits another entry. Debris is found by every read of an entry that shows
// its owner, and by listing a queue again after a join that was not there.
type registry struct {
	s *zkSession

	mu   sync.Mutex
	all  map[ownKey]*ownEntry
	late map[ownKey][]driver.Op // of joins that were not there: what takes back their Ops
}

func newRegistry(s *zkSession) *registry {
	return &registry{s: s, all: make(map[ownKey]*ownEntry), late: make(map[ownKey][]driver.Op)}
}

// expect registers an entry that is about to be made.
func (r *registry) expect(k ownKey, n entryName, req *driver.JoinRequest) {
	e := &ownEntry{}
	if req.Detail != nil {
		e.detail = 1
	}
	if n.downgrades() || n.mode == driver.Weighted {
		e.data = bytes.Clone(req.Data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[k] = e
}

// of returns what is known of an entry, or nil.
func (r *registry) of(k ownKey) *ownEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[k]
}

// forget takes in that an entry is gone, or will never be.
func (r *registry) forget(k ownKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, k)
}

// expectLate has the queue of a join that was not there listed after a while, and after a
// TTL. What comes even later is found by a read.
func (r *registry) expectLate(k ownKey, undo []driver.Op) {
	r.mu.Lock()
	r.late[k] = undo
	r.mu.Unlock()
	r.s.conn.Go(func(ctx context.Context) {
		for _, d := range []time.Duration{min(time.Second, r.s.conn.TTL()/2), r.s.conn.TTL()} {
			driver.Sleep(ctx, r.s.b.Info().Clock, d)
			var b batch
			b.addFolder(r.s.b.lay.folder(k.queue), func(a conn.Answer) {
				i := slices.IndexFunc(a.Children, func(c string) bool { return strings.HasPrefix(c, k.guid) })
				if i >= 0 {
					n, _ := parseName(a.Children[i])
					r.clear(ctx, k.queue, n)
				}
			})
			_ = b.run(ctx, r.s, true) // or the session is over
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.late, k)
	})
}

// sight takes in that an entry was read. If it is debris, it is deleted in the background.
func (r *registry) sight(queue string, n entryName, stat zk.Stat) {
	if n.guid != "" && stat.EphemeralOwner == r.s.conn.Owner() && r.of(ownKey{queue, n.guid}) == nil {
		r.s.conn.Go(func(ctx context.Context) { r.clear(ctx, queue, n) })
	}
}

// isDebris reports whether an entry of the session, as a read has shown it, is one that no
// caller knows.
func (r *registry) isDebris(e *driver.Entry) bool {
	n, ok := nameOf(e.Ref)
	if !ok || n.guid == "" || e.Session != r.s.ID() {
		return false
	}
	own := r.of(ownKey{e.Queue, n.guid})
	return own == nil || own.cleared != nil
}

// clear deletes an entry that no caller knows, with what was made with it, or waits until
// another call has done so.
func (r *registry) clear(ctx context.Context, queue string, n entryName) {
	k := ownKey{queue, n.guid}
	r.mu.Lock()
	known, undo := r.all[k], r.late[k]
	mine := &ownEntry{detail: 1, cleared: make(chan struct{})} // perhaps it has a detail
	if known == nil {
		r.all[k] = mine // so no other call deletes it meanwhile
	}
	r.mu.Unlock()
	if known != nil {
		if known.cleared != nil {
			select {
			case <-known.cleared:
			case <-ctx.Done():
			}
		}
		return
	}
	defer close(mine.cleared)
	defer r.forget(k)
	ref := driver.Ref{Queue: queue, Key: r.s.b.lay.folder(queue) + "/" + n.text, Place: n.place()}
	left, err := r.s.Leave(ctx, driver.LeaveRequest{Ref: ref, Ops: undo})
	switch log := r.s.cfg.Logger; {
	case err == nil && left[0] != driver.WasGone:
		log.Info("zookeeper: deleted an entry of a join that was carried out late", "path", ref.Key)
	case err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrSessionOver):
		log.Warn("zookeeper: cannot delete an entry of a join that was carried out late", "path", ref.Key, "err", err)
	}
}
