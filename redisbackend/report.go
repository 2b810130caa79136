package redisbackend

import (
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Report is what Examine has found out. What the login may not read is zero, and Hidden has the reason.
type Report struct {
	Servers   []Server   // those of the addresses, or which the sentinels name
	Sentinels []Sentinel // of a client with Sentinel options

	// Master is the address of the server that the rest is about: it takes writes, and has the root. "" if
	// there is none.
	Master string

	Root   string
	Layout string // the version of the layout; "" for a root that was never used
	MaxTTL time.Duration
	Nodes  int

	// Life is the incarnation of the server's data, and Stored the one in which the root was declared whole.
	// Where they differ, nothing is granted until programs that try to lock have waited for the greatest TTL
	// together: Counted is for how long they have. Claimed reports that they have begun.
	Life, Stored string
	Claimed      bool
	Counted      time.Duration

	// Refused is why Open refuses the server or the root with the options that were given, "" if it does not.
	Refused string

	Sessions, Stale int // Stale: sessions not renewed for three TTLs
	Queues, Entries int
	Records         int // of queues that have entries

	// MissingToRead and MissingToLock are the commands that a program needs and the login may not use on the
	// root. Servers before Redis 7.0 do not report them.
	MissingToRead, MissingToLock []string

	Hidden []string
}

// Server is what one server reports of itself.
type Server struct {
	Addr string
	Err  string // why it does not; then the rest is zero

	Valkey  bool
	Version string // as "7.0.15"
	Mode    string // "standalone" or "cluster"
	Replica bool
	Follows string // the address of the master of a replica
	Linked  bool   // the replica is connected to it

	// Clock is how far the server's clock is ahead of this machine's, and Within how exactly that is known.
	Clock, Within time.Duration

	Connections, MaxConnections int
	Memory, MaxMemory           int64 // in bytes; 0: no limit
	Policy                      string
	Evicted                     int64 // keys, since the server's start

	AppendOnly bool
	Saves      string // the setting save; "" also where the login may not read settings
	LastSave   time.Time
	SaveFailed bool // the last snapshot, or the last write of the append-only file
	Attached   []Replica

	// BacklogTTL is repl-backlog-ttl: for how long a master keeps its identity without replicas. 0 means for
	// ever, and -1 that the login may not read settings.
	BacklogTTL time.Duration
}

// Replica is a connected replica, as its master reports it.
type Replica struct {
	Addr, State string
	Behind      int64         // bytes that it has not acknowledged
	Silent      time.Duration // since its last acknowledgement
}

// Sentinel is what one sentinel reports of the master.
type Sentinel struct {
	Addr            string
	Err             string // why it does not
	Master          string // the address
	Quorum, Others  int    // other sentinels that it knows
	Replicas        int
	DownAfter       time.Duration
	FailoverTimeout time.Duration
}

// master returns the server that has the root, or nil.
func (r *Report) master() *Server {
	for i := range r.Servers {
		if r.Servers[i].Addr == r.Master {
			return &r.Servers[i]
		}
	}
	return nil
}

// Keeps returns what the servers of this Report keep of the promises of a queue, set up as they are.
func (r Report) Keeps() driver.Keeps {
	o := Options{AcceptWeaker: r.Uncounted()}
	m := r.master()
	if m != nil && strings.HasPrefix(m.Policy, "allkeys") {
		return driver.Keeps{Exclusion: driver.UntilDataLoss, Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss}
	}
	return o.keeps()
}

// Uncounted reports whether more servers have the data than the root counts, so that a renewal may count
// that no majority of them has.
func (r Report) Uncounted() bool {
	m := r.master()
	return m != nil && r.Nodes > 0 && len(m.Attached) >= r.Nodes
}
