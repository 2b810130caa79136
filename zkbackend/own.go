package zkbackend

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fairlock/fairlock/session/driver"
)

// ownKey identifies an entry of the session, from before it has a sequence number.
type ownKey struct{ queue, guid string }

// ownEntry is what the session knows of an entry of its own, or of debris while it deletes that.
//
// The caller makes calls about an entry one at a time, and only those use the fields that are not
// atomic. Callbacks of watches use the others.
type ownEntry struct {
	// data is the entry's data as it was joined, if the entry can get a mark: the mark is a line at its
	// end. Otherwise it is nil. Never changed.
	data []byte

	// token is the czxid of the entry as it was joined. It is 0 until the join is answered, and stays
	// when a downgrade makes the node anew, whose czxid is another.
	token int64

	// marks are those that the session has added, and that an answer has confirmed.
	marks driver.Marks

	// version is how often the value was written since the join, which is the version of the node. Each
	// write requires it, so an older one that comes late is refused.
	version int32

	// detail: the node of the entry's detail may exist. Leave deletes it then, and Update writes it
	// instead of making it.
	detail bool

	// doubt: an Update whose outcome is not known may have written the entry. An Update that succeeds
	// ends the doubt.
	doubt bool

	// holder: a node among the holders may exist. Set before it can, and never reset: the node goes
	// with the entry.
	holder atomic.Bool

	// leaving: Leave was called, and deletes that node too. Never reset.
	leaving atomic.Bool

	// cleared is closed when debris was deleted. It is nil for an entry that is no debris.
	cleared chan struct{}
}

// registry has the session's own entries: each from before it can exist until it is certain that it
// does not. So an entry of this session that is not here is debris: see resolve.go.
type registry struct {
	s *zkSession

	mu sync.Mutex

	// all has each entry that exists, may exist, or is being deleted as debris.
	all map[ownKey]*ownEntry

	// late has joins that may still be carried out late, each with what undoes its Ops. An entry goes
	// when expectLate has looked twice.
	late map[ownKey][]driver.Op
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
	most := r.s.b.lay.mostEntries(k.queue, n.mode)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= most {
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
