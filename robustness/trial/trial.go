// Package trial aims faults at the clients of a lock, and at the servers that it
// is kept on, and records what the clients see. It knows no store: a Service is
// three servers of one, with the locks that can be tried on it.
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

// ErrUseless says of a client that no further attempt of it can succeed: it is to
// be closed, and another one made.
var ErrUseless = errors.New("this client is of no use any more")

// Ours names Fairlock's locks among those of a Service.
const Ours = "fairlock"

// Service is three servers of one store, behind proxies, in processes of their
// own.
type Service interface {
	Name() string // "etcd" or "zookeeper"

	// Locks names the implementations that can be tried: Ours, and the peers',
	// which have mutexes only.
	Locks() []string

	// Client makes a client with a session and a network of its own. The servers
	// that it may talk to are all three, or those that are named. It begins with
	// the first of these, and stays there while nothing is wrong.
	Client(ctx context.Context, lock string, members ...int) (Client, error)

	// Process starts a client in a process of its own, and returns when it holds
	// a mutex.
	Process(ctx context.Context, lock, line string) (*Process, error)

	// Members can be harmed.
	Members() []Member
	Leader(ctx context.Context) (int, error)
	MoveLeader(ctx context.Context, to int) error // errors.ErrUnsupported on ZooKeeper

	// Healthy waits until all members serve and have caught up.
	Healthy(ctx context.Context) error

	// EndSession ends a session as an operator would; Delete an entry.
	EndSession(ctx context.Context, id string) error
	Delete(ctx context.Context, entry string) error

	// Compact forgets old revisions; errors.ErrUnsupported on ZooKeeper.
	Compact(ctx context.Context) error

	// Quota has the store run into its limit, and End ends that;
	// errors.ErrUnsupported on ZooKeeper.
	Quota(ctx context.Context) (end func(context.Context) error, err error)

	// Entries are those in a line now; Order is what has been in it from the
	// beginning, as the store has kept it.
	Entries(ctx context.Context, lock, line string) ([]string, error)
	Order(ctx context.Context, lock, line string) ([]history.Change, error)

	Close() error
}

// Witness is a Service that hears of every change as it happens. Others are asked
// for their Entries again and again, where a figure needs it.
type Witness interface {
	// Left is when it heard that an entry had gone; 0 if it has not.
	Left(entry string) history.Instant
}

// Member is one server.
type Member interface {
	CutPeers() // from all others, both ways
	HealPeers()
	Kill() error                       // returns when the process is gone
	Restart(ctx context.Context) error // returns when it serves
	Pause() error                      // returns when the process has stopped (state T)
	Resume() error

	Traffic() tcpproxy.Traffic // between it and the other members

	// Running says that its process is there, stopped or not, and has not given up
	// serving: false after Kill, and after Fill as soon as that was noticed.
	Running() bool

	// Fill lets every write to its disk fail from now on, until Restart.
	Fill() error
}

// Client is one client.
type Client interface {
	// Acquire asks for a lock. Its error tells whether the client has to be made
	// anew for another attempt, by wrapping ErrUseless.
	Acquire(ctx context.Context, line history.Queue, ask Ask) (Hold, error)

	Session() string // its id at the service, for EndSession
	Member() int     // that it is connected to at the moment; -1 if to none, or to several

	// Cut cuts it off in a direction. What is on the way arrives when Heal ends it. Delay lets replies be late. Reset breaks its connections.
	Cut(d fault.Direction)
	Heal()
	Delay(d time.Duration)
	Reset()
	Traffic() tcpproxy.Traffic

	// Lose has the reply to the next request of a kind lost with its connection,
	// when the server has carried it out. The kinds are the service's; hit says
	// whether it has happened.
	Lose(kind string) (hit func() bool)
	Kinds() []string

	Close() error
}

// Ask says what is wanted of a line.
type Ask struct {
	Shared bool  // a read lock
	Weight int64 // permits
	Within Hold  // a hold of this client's that the request is inside of (Reentrant)
}

// Hold is one that was got. Its methods may be called at the same time.
type Hold interface {
	Token() int64  // 0 if this lock has none
	Place() int64  // in the order of the store, as history.Change has it
	Entry() string // for Delete
	Held() bool    // what a careful user of this lock asks before he writes
	Told() <-chan struct{}
	Release(ctx context.Context) (history.Outcome, error)
}
