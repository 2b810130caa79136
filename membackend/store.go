package membackend

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Store is a service in memory. It is safe for concurrent use. It has no goroutine and
// needs no Close; what its clients leave behind expires.
type Store struct {
	service

	// updates is how many calls of Update there were, by all sessions. A call keeps its number
	// for all its copies, so that a late copy does not undo a newer call, see updateEntry.
	updates atomic.Int64
}

// New returns an empty service. In a test with virtual time it must be called inside
// the bubble.
func New() *Store { return newWith(memory.Options{}, nil) }

// newWith is New for another kind of service; s is nil unless time is simulated.
func newWith(o memory.Options, s memory.Schedule) *Store {
	if s == nil {
		s = packageTime(time.Now()) // a bubble's time, if this is inside one
	}
	return &Store{service: service{
		state: state{
			o:       o,
			sched:   s,
			queues:  make(map[string]*queue),
			places:  make(map[string]int64),
			watches: make(map[driver.Target][]*watch),
		},
		leases: make(map[string]*lease),
	}}
}

// NewClient returns a client with a healthy network.
//
// In a simulation the schedule brings the wire. Then faults that are set on the client have no
// effect, and what they keep stays empty, but Cut and Heal still break watches.
func (st *Store) NewClient() *Client {
	c := &Client{st: st, sent: make(map[fault.Op]int), random: rand.New(rand.NewPCG(st.o.Disorder, 0))}
	c.wire = st.sched.Wire()
	if c.wire == nil {
		c.wire = network{c}
	}
	return c
}

// Backend returns the backend of a new client: NewClient().Backend().
func (st *Store) Backend() driver.Backend { return st.NewClient().Backend() }

// Open opens a session with a new client of its own. A nil o means the
// defaults of [session.Options].
func (st *Store) Open(ctx context.Context, o *session.Options) (*session.Session, error) {
	return st.NewClient().Open(ctx, o)
}

// Limit returns a queue's limit as the service has it, 0 if there is none. It sends
// nothing.
func (st *Store) Limit(name string) int64 {
	limit, _ := strconv.ParseInt(string(st.records(name)["limit"].Value), 10, 64)
	return limit
}

// Sessions returns the ids of the sessions that live at the service, oldest
// first: "m1", "m2" and so on.
func (st *Store) Sessions() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.SortedFunc(maps.Keys(st.leases), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
}

// Expire ends a session at the service, as its own clock or an operator would: its
// entries are gone at once. Its client is not notified; it learns that at its next
// renewal or join. Expire reports whether the session lived.
//
// Watches are notified of the entries. So a holder whose own entry is watched learns of its loss
// before its client learns that the session is over.
func (st *Store) Expire(session string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.end(st.leases[session])
}

// Delete deletes one entry, whatever its owner, as an operator would. It reports
// whether the entry was there.
func (st *Store) Delete(name, key string) bool {
	return st.act(name, key, func(e *entry) { st.remove(e, false) })
}

// records returns the records of a queue as the service has them.
func (st *Store) records(name string) map[string]driver.Record {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.queue(name).named("/")
}

// act calls f at a new revision with the entry that has a key, and reports whether there
// is one. It ignores leases and conditions, as an operator does.
func (st *Store) act(name, key string, f func(*entry)) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.queue(name).entries {
		if e.Key == key {
			st.rev++
			f(e)
			st.observe()
			return true
		}
	}
	return false
}
