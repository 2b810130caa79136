package membackend

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// Store is a service in memory. It is safe for concurrent use. It has no goroutine and
// needs no Close; what its clients leave behind expires.
type Store struct {
	o memory.Options

	// mu guards everything in this package that changes: the service, the
	// networks of its clients, and what sessions know. It is never held while
	// code from outside runs, nor while anything waits.
	mu sync.Mutex

	rev     int64 // of the last change; places and tokens are taken from it
	lines   map[string]*line
	beside  map[string]beside // by line; never deleted
	leases  map[string]*lease
	opened  int   // leases made so far, for their ids
	calls   int64 // changes asked for so far, to tell an old one from a new
	watches map[driver.Ref][]*watch
	past    []moment // if o.Stale
	origin  time.Time

	sched memory.Schedule // decides when things happen; nil: package time does
}

// New returns an empty service. In a test with virtual time it must be called inside
// the bubble.
func New() *Store { return newWith(memory.Options{}) }

// newWith is New for another kind of service.
func newWith(o memory.Options) *Store {
	return &Store{
		o:       o,
		lines:   make(map[string]*line),
		beside:  make(map[string]beside),
		leases:  make(map[string]*lease),
		watches: make(map[driver.Ref][]*watch),
		origin:  time.Now(),
	}
}

// Backend returns the backend of a new client: NewClient().Backend().
func (st *Store) Backend() driver.Backend { return st.NewClient().Backend() }

// entries returns a queue as the service has it, in order of place. It sends
// nothing, so no fault of a network touches it.
func (st *Store) entries(name string) []driver.Entry {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read(name)
}

// Limit returns a queue's limit as the service has it, 0 if there is none. It sends
// nothing.
func (st *Store) Limit(name string) int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.beside[name].limit
}

// Sessions returns the ids of the sessions that live at the service, oldest
// first: "m1", "m2" and so on.
func (st *Store) Sessions() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	ids := make([]string, 0, len(st.leases))
	for id := range st.leases {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return ids
}

// read shows a whole line.
func (st *Store) read(name string) []driver.Entry {
	var all []driver.Entry
	if ln := st.lines[name]; ln != nil {
		for i, e := range ln.entries {
			shown := e.Entry
			shown.Value = slices.Clone(e.Value)
			if l := st.beside[name].ledger; i == 0 && l.names(e) {
				shown.Past = l.past
			}
			all = append(all, shown)
		}
	}
	return all
}

// names returns, sorted, the lines that begin with prefix.
func (st *Store) names(prefix string) []string {
	var all []string
	for name := range st.lines {
		if _, asks := driver.AskedLine(name); strings.HasPrefix(name, prefix) && !asks {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
