package driver

import (
	"context"
	"log/slog"
	"time"
)

// Backend opens sessions on one service. It is safe for concurrent use.
type Backend interface {
	// Profile returns what the service is and what it can do. It never changes.
	Profile() Profile

	// Clock is the one source of time for everything above this backend.
	Clock() Clock

	// CheckName returns why the layout cannot hold a lock of this name, or nil. Length,
	// emptiness and UTF-8 have been checked. Nothing is sent.
	CheckName(name string) error

	// Open makes a fresh service session. It returns within ctx, with an error
	// that wraps ErrDenied or ErrRefused if waiting cannot cure it. After an
	// error nothing of it stays at the service for longer than its TTL.
	Open(ctx context.Context, cfg Config) (Session, error)

	// List reads a queue in order, holders first, with all that entries contain; no
	// more than the first most of them, unless most is 0. A queue that does not exist
	// is empty. The answer is the queue as it was at some moment between call and
	// return.
	List(ctx context.Context, name string, most int) ([]Entry, error)

	// Names returns, sorted, the names that begin with prefix and whose queue has at
	// least one entry. It leaves out queues of yield requests.
	Names(ctx context.Context, prefix string) ([]string, error)

	// Limit reads a queue's limit; 0 if it has none.
	Limit(ctx context.Context, name string) (int64, error)

	// Evict deletes one entry, whatever its owner, as an operator does. The entry must
	// be as List, a Look or a Join has returned it; another entry that has got its key
	// is never deleted. The records of the entry go as after any deletion by a client
	// that is not its owner, see Session.Leave; its name stays in the ledger. Nil: it
	// is gone, and this call did that, or an attempt of this call that was not answered
	// may have. ErrGone: it was gone before, or there never was such an entry in that
	// queue. ErrDenied: a permission is missing, and the error names the path. Any
	// other error: unknown; call again, it is idempotent.
	Evict(ctx context.Context, e Entry) error

	// Close frees what the backend itself owns (a connection that it dialled).
	// It is called once, after the last Session is over.
	Close() error
}

// Profile is what the layers above must know of a service.
type Profile struct {
	// Service is its name in errors and in the command line: "etcd".
	Service string

	// MinTTL is the least TTL that makes sense there.
	MinTTL time.Duration

	// Margin gives the default margin for a TTL: how far the service's own
	// expiry can be ahead of what its acknowledgements promise, or more.
	Margin func(ttl time.Duration) time.Duration

	// Ordered reports whether the events of one Session come in the order in which the
	// service made the changes, until a Broken event. Then an armed watch on the
	// session's own entry that was silent until another event proves that this entry
	// lived at that event. Without it a waiter reads its own entry before every grant.
	Ordered bool

	// Tells reports whether watches with WatchRequest.Tell report Event.Held where the
	// entry released a hold. Then a waiter learns without a read that it is next.
	Tells bool

	// Moves reports whether Share puts another entry, with another key, in the place of
	// the old one. Then the end of an entry that is Movable may be that, unless
	// Event.Held is set.
	Moves bool

	// Ends reports whether a watch OfAdmitted reports the end of every entry ahead, not
	// only of those that were admitted by Admit.
	Ends bool

	// Within reports whether the queue of name contains the entries of another
	// name's queue: then a holder of other that joins name waits for itself. Nil
	// means never.
	Within func(other, name string) bool

	// MaxAll is the most entries that JoinAll makes in one transaction.
	MaxAll int

	// MaxValue is the most bytes that JoinRequest.Value takes.
	MaxValue int
}

// Config is what a Session is opened with.
type Config struct {
	// TTL is the wanted time to live; the service may give another, which
	// Proof reports.
	TTL time.Duration

	// Proof reports an acknowledged request that proves that the service had
	// the session: when the request was *sent* (never when the answer came),
	// and the TTL that the service counts from then on. It may be called from
	// any goroutine, in any order, and before Open returns.
	Proof func(sent Instant, ttl time.Duration)

	// Gone reports that the service no longer has the session: it expired, or an
	// operator ended it; or, with an error that is ErrClosed, that the client under the
	// session was closed. It may be called from any goroutine, more than once.
	Gone func(err error)

	// Window is the trust window, the time between a proof and the deadline: TTL less
	// margin. Renewals are paced so that several fit into it.
	Window time.Duration

	// Margin is how long before the end of a TTL the deadline is, if the service gives
	// that TTL. Nil: this session has no holds.
	Margin func(ttl time.Duration) time.Duration

	// Logger is never nil, and its calls return at once, whatever the user's own
	// logger does. So a backend may log while it holds a mutex.
	Logger *slog.Logger
}

// Session is one service session: one etcd lease, one ZooKeeper session. It is
// safe for concurrent use and keeps itself alive until Abandon or Close.
type Session interface {
	// ID names the session as the service's own tools show it.
	ID() string

	// Join puts an entry at the end of a queue. It returns a *TakenError if req.IfEmpty
	// and the queue is not empty, a *PendingError if ctx ended while it was unknown
	// whether the entry was made, an error that wraps ErrSessionOver if the session is
	// over, and one that wraps ErrDenied or ErrRefused if waiting cannot cure it. In an
	// empty queue it costs one round trip, unless IfEmpty needs more, or the queue has
	// to be made first. Two entries of one Session in one queue are two entries.
	Join(ctx context.Context, req JoinRequest) (Joined, error)

	// JoinAll is Join for several different queues, in one transaction: all entries are
	// made, or none. They have one token, and two JoinAll have the same order in every
	// queue that they share. It fails as Join does, with one *PendingError for all; a
	// *TakenError is of the first queue that is not empty, in the order of the
	// requests. More than Profile.MaxAll are an error that wraps ErrRefused, and so are
	// queues of which one contains the entries of the other. Requests have neither
	// Limit nor Value, and nothing is entered in ledgers: that is left to Enter.
	JoinAll(ctx context.Context, reqs []JoinRequest) ([]Joined, error)

	// Leave deletes an entry of this Session, and only that one: never a later entry
	// that got the same key. The records of the entry go with it: its slot (Claim), and
	// that of Admit. Where another client deleted the entry, they go when a watch on
	// the entry reports that to this Session, or by Leave. It works after Abandon too.
	// Nil error: it is gone, and this call or an earlier unanswered one of its kind did
	// it. ErrGone: it was gone before. Any other error: unknown; call again, it is
	// idempotent.
	//
	// The answer reports an end, next to the events: Left.Rev places it between two of
	// them. Where there is none, Left.Told reports that the callback of every armed
	// watch of this Session has returned from all that the service did to its entry
	// before the deletion, or from Broken; WatchRequest.Tell may still put off a Gone.
	// A service whose events have no Rev owes that to every answer that it can give in
	// time: it waits for the callbacks, until ctx or the session ends, and for nothing
	// else. With neither Rev nor Told the answer is sound, but no entry is granted by
	// it without a read.
	Leave(ctx context.Context, req LeaveRequest) (Left, error)

	// LeaveAll is Leave for the entries of a JoinAll, in one transaction. Nil
	// error: they are all gone; Left.Gone marks those that were gone before.
	LeaveAll(ctx context.Context, reqs []LeaveRequest) ([]Left, error)

	// Share makes an exclusive entry of this Session a shared one: a writer becomes a
	// reader, in its place and with its token, and no read shows the queue without it
	// meanwhile. Errors are as of Leave, and a call for an entry that is shared already
	// succeeds.
	Share(ctx context.Context, ref Ref) (Turned, error)

	// Admit records at the service that an entry of this Session holds, in a queue with
	// a limit. Watches of the entry with Changes report it, reads that request the
	// limit show it as Entry.Admitted, and so does List, and watches OfAdmitted report
	// its end. Errors are as of Leave.
	Admit(ctx context.Context, ref Ref) error

	// Record stores at the service since when an entry of this Session holds, by the
	// owner's wall clock, for people and tools to read: List shows the time as
	// Entry.Granted. Nothing in it decides which entries hold. The record is optional:
	// it goes with the entry, in the request that deletes the entry where that is a
	// Leave, and it never delays or fails a Leave. It is no event: no watch of the
	// entry reports it. Errors are as of Leave, and of two calls for one entry the
	// first counts.
	Record(ctx context.Context, ref Ref, granted time.Time) error

	// Claim assigns a slot to an entry of this Session: the lowest number, from 0 on,
	// that no other entry of the queue has. It has it for as long as it lives. Errors
	// are as of Leave, and a second call returns the same.
	Claim(ctx context.Context, ref Ref) (Number, error)

	// Write replaces the value of an entry of this Session that was made with
	// JoinRequest.Value. Errors are as of Leave.
	Write(ctx context.Context, ref Ref, value []byte) error

	// Enter writes into the queue's ledger that an entry of this Session holds, and
	// returns how the hold before it ended. See JoinRequest.Ledger. Errors are as of
	// Leave, and a second call returns the same.
	Enter(ctx context.Context, ref Ref) (Past, error)

	// SetLimit sets the limit of a queue. Nil error: it is done. Any other that wraps
	// neither ErrDenied nor ErrRefused: unknown, call again.
	SetLimit(ctx context.Context, line string, limit int64) error

	// Done returns the record of finished work of a queue, as MarkDone
	// has written it; nil if there is none. The answer is not older than the call.
	Done(ctx context.Context, line string) ([]byte, error)

	// MarkDone replaces that record by what update makes of it, if the entry, which is
	// one of this Session, is there at that moment. No other change of the record is
	// lost, and an attempt that comes late changes nothing. update gets nil if there is
	// no record, may be called several times, and returns nil to leave the record as it
	// is. The record is at most MaxDone bytes long and outlives the entry. Errors are
	// as of Leave.
	MarkDone(ctx context.Context, ref Ref, update func(record []byte) []byte) error

	// Look reads the part of a queue that is before and at a place. The state it shows
	// is not older than req.NotBefore. It need not be the newest.
	Look(ctx context.Context, req LookRequest) (View, error)

	// Watch calls f with what happens to an entry until cancel is called. The entry
	// must be one that this Session has made, or that a Look or a Join has returned: a
	// server that lags behind may not know any other yet. See Event for what comes and
	// in which order. Watch does not block and sends in the background; f may be called
	// once more while cancel runs, never after a Gone. Cancel is idempotent.
	Watch(req WatchRequest, f func(Event)) (cancel func())

	// Prove asks for a proof now instead of at the next turn, because
	// something made the caller doubt. It does not wait.
	Prove()

	// Abandon stops proving and frees all that the session has in this
	// process, and leaves the service session to expire by itself. Close may
	// still be called after it. It does not block.
	Abandon()

	// Close ends the service session there: its entries are gone when Close
	// returns nil. With an error they go when the TTL has passed. It frees
	// everything in this process in any case. It is called once.
	Close(ctx context.Context) error
}
