package zkbackend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// ownKey identifies an entry of the session, from before it has a sequence number.
type ownKey struct{ queue, guid string }

// ownEntry is what the session knows of an entry of its own. The caller makes calls about an
// entry one at a time, and only those use the fields that are not atomic.
type ownEntry struct {
	data    []byte       // as joined, if the entry can get a mark
	token   int64        //
	marks   driver.Marks // those that the session has added
	version int32        // how often the value was written since the join
	detail  bool         // its node among the details may exist
	doubt   bool         // an Update whose outcome is not known may have written the entry
	holder  atomic.Bool  // a node among the holders may exist
	leaving atomic.Bool  // Leave was called, and deletes that node too

	cleared chan struct{} // of debris: closed when it was deleted; nil for other entries
}

// registry has the session's own entries, from before each can exist until it is certain that
// it does not.
//
// If the answer to a join was lost, the session sends a Sync and lists the queue on a newer
// connection. An entry that is not there can still appear: a server with Netty, which TLS needs,
// goes on with what it has read from the old connection. No caller knows such an entry, and the
// queue would wait for it until the session ends. It is debris, and the session deletes it.
//
// The session recognises debris by its owner, which is this session, and by its name, which is
// not registered. Names have a random part, so no other entry is deleted. Every read that shows
// the owner of an entry finds debris, and so do two later listings of the queue.
type registry struct {
	s *zkSession

	mu   sync.Mutex
	all  map[ownKey]*ownEntry
	late map[ownKey][]driver.Op // of joins that may be carried out late: what undoes their Ops
}

// The transaction that ends a session names all its ephemeral nodes (closeSession of
// PrepRequestProcessor, since 3.6). A leader writes one of any length to its log, but no server reads
// one that is longer than jute.maxbuffer and its extrasize, by default twice 0xfffff bytes: 2 097 150.
// So the followers leave the leader, and it cannot load its data any more. They still have the
// session, and when that expires again, the next leader ends in the same way, until there is no
// majority (ZOOKEEPER-4306; seen on 3.8.0, with one byte too many).
//
// So a session has a bounded number of entries. Each path costs four bytes more than its length. With
// a queue's side folder of s bytes, an entry costs at most
//
//	2s +  67   for the entry and its detail:          10 500 of them 2.05 MB, where s is 64
//	5s + 186   with a holder's node and a slot, whose
//	           record has two nodes:                   4 000 of them 2.02 MB, where s is 64
//
// Where s is longer, the number is smaller in proportion, and the sums are smaller too.
//
// Not handled: a session that has hundreds of entries in queues of the longest names and thousands in
// others, because the bound is that of the queue that is joined. Nor a session that leaves many details
// behind, because an operator took away the permission to delete them.
const (
	maxEntries  = 10_500
	maxRequests = 4_000 // where the entry joins as a request for permits
	usualSide   = 64    // bytes
)

// mostEntries returns how many entries a session may have with the one that joins a queue.
func (l layout) mostEntries(queue string, mode driver.Mode) int {
	most := maxEntries
	if mode == driver.Weighted {
		most = maxRequests
	}
	return most * usualSide / max(usualSide, len(l.side(queue)))
}

func newRegistry(s *zkSession) *registry {
	return &registry{s: s, all: make(map[ownKey]*ownEntry), late: make(map[ownKey][]driver.Op)}
}

// expect registers an entry that a transaction is about to make, unless the session has too many.
func (r *registry) expect(k ownKey, n entryName, req *driver.JoinRequest) error {
	e := &ownEntry{detail: req.Detail != nil}
	if n.downgrades() || n.mode == driver.Weighted {
		e.data = bytes.Clone(req.Data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= r.s.b.lay.mostEntries(k.queue, n.mode) {
		return fmt.Errorf("%w: the session has %d entries, and with more of such names the servers could not end it: use more sessions",
			driver.ErrRefused, len(r.all))
	}
	r.all[k] = e
	return nil
}

// of returns a registered entry, or nil.
func (r *registry) of(k ownKey) *ownEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[k]
}

// forget removes an entry that does not exist, and will not, except as debris.
func (r *registry) forget(k ownKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, k)
}

// expectLate lists the queue of a join whose entry was not there twice: after at most a second,
// and a TTL later. Debris that appears even later is found by reads.
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

// onRead is called with each entry that was read. It deletes debris in the background.
func (r *registry) onRead(queue string, n entryName, stat zk.Stat) {
	if n.guid != "" && stat.EphemeralOwner == r.s.conn.Owner() && r.of(ownKey{queue, n.guid}) == nil {
		r.s.conn.Go(func(ctx context.Context) { r.clear(ctx, queue, n) })
	}
}

// isDebris reports whether an entry, as a read has shown it, is debris.
func (r *registry) isDebris(e *driver.Entry) bool {
	n, ok := nameOf(e.Ref)
	if !ok || n.guid == "" || e.Session != r.s.ID() {
		return false
	}
	own := r.of(ownKey{e.Queue, n.guid})
	return own == nil || own.cleared != nil
}

// clear deletes debris, with what its join has made too, or waits until another call has done so.
func (r *registry) clear(ctx context.Context, queue string, n entryName) {
	k := ownKey{queue, n.guid}
	r.mu.Lock()
	known, undo := r.all[k], r.late[k]
	mine := &ownEntry{detail: true, cleared: make(chan struct{})}
	if known == nil {
		r.all[k] = mine // so no other call deletes it too
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
