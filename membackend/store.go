package membackend

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Store is a service in memory. It is safe for concurrent use. It owns no
// goroutine and needs no Close; what its clients leave behind expires.
type Store struct {
	// mu guards everything in this package that changes: the service, the
	// networks of its clients, and what sessions know. It is never held while
	// code from outside runs, nor while anything waits.
	mu sync.Mutex

	rev     int64 // of the last change; places and tokens are taken from it
	lines   map[string]*line
	leases  map[string]*lease
	opened  int // leases made so far, for their ids
	watches map[driver.Ref][]*watch
	origin  time.Time
}

// New returns an empty service. In a test with virtual time it must be called
// inside the bubble.
func New() *Store {
	return &Store{
		lines:   make(map[string]*line),
		leases:  make(map[string]*lease),
		watches: make(map[driver.Ref][]*watch),
		origin:  time.Now(),
	}
}

// Backend returns the backend of a new client: NewClient().Backend().
func (st *Store) Backend() driver.Backend { return st.NewClient().Backend() }

// Entries returns a line as the service has it, in order of place. It sends
// nothing, so no fault of a network touches it.
func (st *Store) Entries(name string) []driver.Entry {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read(name)
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
		for _, e := range ln.entries {
			all = append(all, e.Entry)
		}
	}
	return all
}

// names returns, sorted, the lines that begin with prefix.
func (st *Store) names(prefix string) []string {
	var all []string
	for name := range st.lines {
		if strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
