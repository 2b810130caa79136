package membackend

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Store is a service in memory. It is safe for concurrent use. It has no goroutine and
// needs no Close; what its clients leave behind expires.
type Store struct {
	o Options

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

	sched Schedule // decides when things happen; nil: package time does
}

// Options select the kind of service that a Store is. The zero value reports the least
// in its answers, and numbers all events as etcd does.
type Options struct {
	// Tells makes the service record which entry released a hold, for watches with
	// [driver.WatchRequest.Tell]. There is one such record for each queue: it is lost
	// when the next entry joins, and with the last entry of the queue. The watch reads
	// it when the entry is gone, and reports Gone after the answer, so it costs a round
	// trip.
	Tells bool

	// NoRevs makes events and answers to Leave come without a revision, as ZooKeeper's
	// do. Then a watch on an entry that is gone already reports that, at once and after
	// a cut.
	NoRevs bool

	// Near makes the answer to a Join contain the nearest entries ahead, as many as it
	// requests, and not only the first.
	Near bool

	// Moves makes Share put another entry, with another key, in the place of the old
	// one. Watches of the old one report that it is gone.
	Moves bool

	// Ends makes watches of driver.OfAdmitted report the end of every entry ahead, not
	// only of those that were admitted.
	Ends bool

	// Stale makes reads show the queue as it was as long ago as they allow, as from a
	// member of a cluster that lags behind.
	Stale bool

	// OwnUnarmed withholds Armed from watches on own entries, which still report
	// the end. A service does so while its events may come out of order.
	OwnUnarmed bool
}

// New returns an empty service of the zero kind. In a test with virtual time it
// must be called inside the bubble.
func New() *Store { return NewWith(nil) }

// NewWith is New for another kind of service. A nil o means the zero Options.
func NewWith(o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	return &Store{
		o:       *o,
		lines:   make(map[string]*line),
		beside:  make(map[string]beside),
		leases:  make(map[string]*lease),
		watches: make(map[driver.Ref][]*watch),
		origin:  time.Now(),
	}
}

// Backend returns the backend of a new client: NewClient().Backend().
func (st *Store) Backend() driver.Backend { return st.NewClient().Backend() }

// Entries returns a queue as the service has it, in order of place. It sends nothing,
// so no fault of a network affects it.
func (st *Store) Entries(name string) []driver.Entry {
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
