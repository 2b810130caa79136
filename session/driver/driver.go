package driver

import (
	"context"
	"log/slog"
	"time"
)

// Backend opens sessions on one service. It is safe for concurrent use.
type Backend interface {
	// Info returns what the service is and what it can do. It never changes.
	Info() Info

	// CheckName returns why the layout cannot hold a queue of this name, or nil. Length,
	// emptiness, NUL bytes and UTF-8 have been checked. Nothing is sent.
	CheckName(name string) error

	// Open makes a new service session. It returns before ctx ends, with an error that
	// wraps ErrDenied or ErrRefused if waiting cannot help, and ErrSessionOver if the new
	// session has ended before Open could return it. After an error nothing of the session
	// stays at the service for longer than its TTL, or, where the service ends no sessions,
	// than described at Session.Close.
	//
	// In a quarantine (see the package's section on lives) Open makes no session that can
	// join. It waits, and when ctx ends first, the error wraps ErrUnavailable, and its text
	// names the time that is left.
	Open(ctx context.Context, cfg Config) (Session, error)

	// Close frees what the backend itself owns (a connection that it dialled). It is
	// called once, after the last Session is over.
	Close() error
}

// Info is what the layers above must know of a service.
type Info struct {
	// Service is its name in errors and in the command line: "etcd".
	Service string

	// Clock is the one source of time for everything above this backend.
	Clock Clock

	// MinTTL is the least TTL that makes sense there.
	MinTTL time.Duration

	// MaxTTL is the longest TTL of a session; 0 means that there is no limit. A service that
	// must wait for the end of every session of which it has lost the data waits that long.
	// Open returns an error that wraps ErrRefused for a longer one.
	MaxTTL time.Duration

	// Margin returns the default margin for a TTL. The service can expire a session a
	// little earlier than one TTL after it received a renewal; the margin is at least that
	// difference.
	Margin func(ttl time.Duration) time.Duration

	// MaxJoin is the most entries that one Join makes, and MaxData the most bytes of
	// JoinRequest.Data.
	MaxJoin int
	MaxData int

	// Keeps is what the service, set up as it is, keeps of the promises of a queue.
	Keeps Keeps

	// Within reports whether the queue of name contains the entries of another name's
	// queue: then a holder of other that joins name waits for itself. Nil means never.
	Within func(other, name string) bool
}

// Config is what a Session is opened with.
type Config struct {
	// TTL is the wanted time to live. The service may give another one, which Renewed
	// reports. It is 0 if Observer is set.
	TTL time.Duration

	// Margin returns how long the deadline is before the end of a TTL, for a TTL that the
	// service gives. The backend paces renewals so that several are sent before the
	// deadline.
	Margin func(ttl time.Duration) time.Duration

	// Renewed reports an acknowledged request that proves that the service had the
	// session: when the request was *sent* (never when the answer came), and the TTL
	// that the service counts from then on, which never becomes shorter. lag is how long
	// after sent, at most, the next one is acknowledged while the service answers at once:
	// less than the time to the deadline. It may be called from any goroutine, in any
	// order. Unless Observer is set, it is called at least once before Open returns. It is
	// never nil.
	Renewed func(sent Instant, ttl, lag time.Duration)

	// Gone reports that the service no longer has the session: it expired, or an
	// operator ended it; or, with an error that is ErrClosed, that the client under the
	// session was closed. It may be called from any goroutine, more than once. It is
	// never nil.
	Gone func(err error)

	// Observer asks for a session that makes no entries: it has no TTL, is not kept at
	// the service, and never calls Renewed. Join returns an error that wraps ErrRefused.
	// It is for tools, which must also work where the service takes no new sessions.
	Observer bool

	// Logger is never nil, and its calls return at once, whatever the user's own logger
	// does. So a backend may log while it holds a mutex.
	Logger *slog.Logger
}

// Session is one service session: one etcd lease, one ZooKeeper session. It is safe for
// concurrent use and keeps itself alive until Abandon or Close.
//
// The error of a method with a context wraps
//   - ErrSessionOver if the session is over,
//   - ErrDenied or ErrRefused if waiting cannot cure it,
//   - ErrClosed if the client under the session was closed,
//   - ErrUnavailable if no server answered before ctx ended.
type Session interface {
	// ID names the session as the service's own tools show it.
	ID() string

	// Since returns a number that the tokens of all entries and records are above that were written in
	// the life in which the session was opened; no token of a life before is. It is 0 in the first
	// life of the store, and never changes.
	Since() int64

	// Join puts one entry at the end of each queue, all in one transaction: all entries
	// are made, or none, and they have one token. Two Joins have the same order in every
	// queue that they share. Two entries of one Session in one queue, made by two Joins,
	// are two entries. The answers are in the order of the requests.
	//
	// Join returns a *TakenError for the first queue with IfEmpty that is not empty, a
	// *RefusedError if the condition of a required Op does not hold, and a *PendingError
	// if ctx ended while the outcome was unknown; in the other cases of an error no
	// entry was made, and none will come. More than Info.MaxJoin requests, and queues of
	// which one contains the entries of another, are an error that wraps ErrRefused.
	//
	// In empty queues it costs one round trip; more if a queue has to be made first, if an
	// optional Op is refused, and where the service cannot test IfEmpty or the record of a
	// required Op in the transaction that makes the entries.
	Join(ctx context.Context, reqs ...JoinRequest) ([]Joined, error)

	// Leave deletes exactly these entries, never a later one that got the same key, with
	// their details and their Ops, in one transaction. What is gone already is skipped,
	// with its Ops, but for those of bound records: another client may hold by now, and
	// must find in the ledger that this one did not release. The answers are in the order
	// of the requests. It is idempotent.
	//
	// Nil error: no entry is left. Any other that wraps neither ErrDenied nor ErrRefused:
	// unknown; call Leave again. All Ops of a Leave are optional: one whose condition
	// does not hold, or which the service refuses, is left out, and is not done later.
	Leave(ctx context.Context, reqs ...LeaveRequest) ([]Left, error)

	// Read returns part of a queue, see the package's section on reads. A queue that
	// does not exist is empty.
	Read(ctx context.Context, req ReadRequest) (View, error)

	// Update changes an own entry and records of its queue: everything or nothing, but
	// for optional Ops. If req.Entry is set, it is done only while that entry is there.
	// The results are those of req.Ops.
	//
	// Nil error: every required Op is done, and its Result has the record that it left, or a
	// newer one if another client has written it since, also if an earlier attempt did it.
	// ErrGone: the entry was not there; nothing was done, nor will be.
	// *RefusedError: the condition of a required Op does not hold; nothing was done, but
	// an attempt before that was not answered may still be done once the condition holds.
	// Other errors that wrap neither ErrDenied nor ErrRefused: unknown; call again.
	Update(ctx context.Context, req UpdateRequest) ([]Result, error)

	// Names returns, sorted, the names that begin with prefix and whose queue has at
	// least one entry. It leaves out queues of yield requests.
	Names(ctx context.Context, prefix string) ([]string, error)

	// Watch calls f with what happens to a target until cancel is called, or the target
	// is Gone. An entry must be one that this Session has made, or that a Read or Join
	// has returned. Watch does not block and sends in the background. Calls of f run one
	// at a time for each Session; f must not block, and may call Watch and cancel. f may
	// be called once more while cancel runs. cancel is idempotent. See Event.
	Watch(t Target, f func(Event)) (cancel func())

	// Renew sends a renewal now instead of at the next turn, because the caller has reason
	// to doubt that the session lives. It does not wait.
	Renew()

	// Abandon stops the renewals, frees all that the session has in this process, and
	// leaves the service session to expire, see Close. It does not block. Close may be called
	// later.
	Abandon()

	// Close ends the service session at the service: its entries are gone when Close
	// returns nil. After an error they end when the TTL has passed, or, where the service
	// ends no sessions, a TTL after another client began to observe. In any case Close frees
	// everything in this process. It is called once. Unlike Abandon, it leaves a worker no
	// time to stop.
	Close(ctx context.Context) error
}
