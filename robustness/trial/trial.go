// Package trial aims faults at the clients of a lock and at its servers, and records
// what the clients observe. It depends on no particular service: a Service is three
// servers, and the locks that can be tested on them.
package trial

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/robustness/history"
)

// TTL is the time to live of all sessions.
const TTL = 2 * time.Second

// ErrUseless means that no further attempt of a client can succeed. The caller closes
// the client and opens another one.
var ErrUseless = errors.New("this client is of no use any more")

// Ours is the name of Fairlock's locks in Service.Locks.
const Ours = "fairlock"

// Service is three servers, each in its own process, behind proxies.
type Service interface {
	Name() string // "etcd" or "zookeeper"

	// Transport returns how the servers serve clients, "" if they have only one way.
	Transport() string

	// Margin returns how long before the service can expire a session of Fairlock the
	// contexts of its holds end.
	Margin() time.Duration

	// Locks returns the names of the implementations that can be tested: Ours, and
	// those of the peers, which have mutexes only.
	Locks() []string

	// Client opens a client with its own session and network. It may connect to the
	// given members, or to all three if none are given. It connects to the first
	// given member, and stays there as long as no fault occurs.
	Client(ctx context.Context, lock string, members ...int) (Client, error)

	// Process starts a client in its own process, and returns when the client holds
	// a mutex, or leads.
	Process(ctx context.Context, lock, queue string, req Request) (*Process, error)

	Members() []Member
	Leader(ctx context.Context) (int, error)
	MoveLeader(ctx context.Context, to int) error // errors.ErrUnsupported on ZooKeeper

	// Healthy waits until all members serve and have caught up.
	Healthy(ctx context.Context) error

	// EndSession ends a session, and Delete deletes an entry, as an operator would.
	EndSession(ctx context.Context, id string) error
	Delete(ctx context.Context, entry string) error

	// Compact removes old revisions; errors.ErrUnsupported on ZooKeeper.
	Compact(ctx context.Context) error

	// Quota makes the service behave as if its database had reached its quota, and end
	// ends that; errors.ErrUnsupported on ZooKeeper.
	Quota(ctx context.Context) (end func(context.Context) error, err error)

	// Entries returns the entries that are in a queue now, in their order. Order
	// returns all changes of the queue from the beginning, as the service recorded
	// them; errors.ErrUnsupported for a lock that has no queue there.
	Entries(ctx context.Context, lock, queue string) ([]string, error)
	Order(ctx context.Context, lock, queue string) ([]history.Change, error)

	Close() error
}

// Watcher is a Service that can watch entries. Other services are polled for their
// Entries where a figure needs the moment at which an entry ended.
type Watcher interface {
	// Left returns when the service reported that an entry had been deleted; 0 if
	// it has not.
	Left(entry string) history.Instant
}

// Member is one server.
type Member interface {
	CutPeers() // cuts it off from all other members, in both directions
	HealPeers()
	Kill() error                       // returns when the process has ended
	Restart(ctx context.Context) error // returns when the member serves
	Pause() error                      // returns when the process has stopped (state T)
	Resume() error

	Traffic() tcpproxy.Traffic // between it and the other members

	// Running reports whether its process exists, stopped or not, and still serves.
	// It is false after Kill, and after Fill once the member has noticed.
	Running() bool

	// Fill makes every write to its disk fail until Restart.
	Fill() error
}

// Client is one client.
type Client interface {
	// Acquire acquires a lock. Its error wraps ErrUseless if another attempt needs a
	// new client.
	Acquire(ctx context.Context, queue history.Queue, req Request) (Hold, error)

	Session() string // its id at the service, for EndSession
	Member() int     // the member that it is connected to now; -1 if none or several

	// Cut holds back all bytes in a direction until Heal, which delivers them. Delay
	// makes replies late. Reset breaks its connections.
	Cut(d fault.Direction)
	Heal()
	Delay(d time.Duration)
	Reset()
	Traffic() tcpproxy.Traffic

	// Lose makes the connection break instead of delivering the reply to the next
	// request of a kind that the server carries out. hit reports whether that has
	// happened. Kinds returns the kinds of the service that this client sends.
	Lose(kind string) (hit func() bool)
	Kinds() []string

	Close() error
}

// Request is what a client requests of a queue.
type Request struct {
	Shared bool  // a read lock
	Weight int64 // permits
	Within Hold  `json:"-"` // a hold of the same client, inside which the request is made (Reentrant)
	Quiet  bool  // its Monitor asks the hold nothing until the hold's context has ended

	// Generation is the number of the roll-out of a candidate; 0 if the request is none. Acquire of a
	// candidate runs an election until ctx ends, and returns no hold: it calls Lead for each leadership.
	// handsOver reports whether the context of Lead ended because the leader hands over.
	Generation int64
	Lead       func(ctx context.Context, h Hold, handsOver func() bool) `json:"-"`
}

// Hold is an acquired lock. Its methods may be called concurrently.
type Hold interface {
	Token() int64  // 0 if this lock has none
	Place() int64  // in the service's order, as in history.Change
	Entry() string // for Delete
	Held() bool    // what a careful user of this lock checks before writing

	// Done returns a channel that is closed when this lock notifies its holder that
	// the hold is over.
	Done() <-chan struct{}
	Release(ctx context.Context) (history.Outcome, error)
}
