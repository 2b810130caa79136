package driver

import (
	"context"
	"log/slog"
	"time"
)

// Backend opens sessions on one service. It is safe for concurrent use.
type Backend interface {
	// Profile says what the service is and what it can do. It never changes.
	Profile() Profile

	// Clock is the one source of time for everything above this backend.
	Clock() Clock

	// CheckName says why the layout cannot hold a lock of this name, or nil.
	// Length, emptiness and UTF-8 have been checked. Nothing is sent.
	CheckName(name string) error

	// Open makes a fresh service session. It returns within ctx, with an error
	// that wraps ErrDenied or ErrRefused if waiting cannot cure it. After an
	// error nothing of it stays at the service for longer than its TTL.
	Open(ctx context.Context, cfg Config) (Session, error)

	// List reads a line in order, holders first, with all that entries say of
	// themselves; no more than the first most of them, unless most is 0. A
	// line that does not exist is empty. The answer is the line as it was at
	// some moment between call and return.
	List(ctx context.Context, name string, most int) ([]Entry, error)

	// Names returns, sorted, the names that begin with prefix and whose line
	// has at least one entry.
	Names(ctx context.Context, prefix string) ([]string, error)

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

	// Ordered says that the events of one Session come in the order in which
	// the service made the changes, for as long as no Broken event tells
	// otherwise. Then an armed watch on the own entry that was silent until
	// another event proves that the own entry lived at that event. Without it
	// the own entry is read before every grant.
	Ordered bool

	// Tells says that watches with WatchRequest.Tell are answered by
	// Event.Held where the entry gave back a hold. Then nobody needs to look at
	// a line in time to know that its turn comes next.
	Tells bool
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

	// Gone reports that the service no longer has the session: it expired, or
	// somebody ended it. It may be called from any goroutine, more than once.
	Gone func(err error)

	// Window is the time between a proof and the end of belief: TTL less
	// margin. Renewals are paced so that several fit into it.
	Window time.Duration

	// Margin is how long before the end of a TTL belief ends, if the service
	// gives that TTL. Nil: nobody holds anything in this session.
	Margin func(ttl time.Duration) time.Duration

	// Logger is never nil.
	Logger *slog.Logger
}

// Session is one service session: one etcd lease, one ZooKeeper session. It is
// safe for concurrent use and keeps itself alive until Abandon or Close.
type Session interface {
	// ID names the session as the service's own tools show it.
	ID() string

	// Join puts an entry at the end of a line. It returns a *TakenError if
	// req.IfEmpty and somebody is there, a *PendingError if ctx ended while it
	// was unknown whether the entry was made, an error that wraps
	// ErrSessionOver if the session is over, and one that wraps ErrDenied or
	// ErrRefused if waiting cannot cure it. Where nobody is ahead it costs one
	// round trip, unless IfEmpty needs more, or the line has to be made first.
	// Two entries of one Session on one line are two entries.
	Join(ctx context.Context, req JoinRequest) (Joined, error)

	// Leave deletes an entry of this Session, and only that one: never a later
	// entry that got the same key. It works after Abandon too. Nil error: it is gone, and this call or an
	// earlier unanswered one of its kind did it. ErrGone: it was gone before.
	// Any other error: unknown; call again, it is idempotent.
	Leave(ctx context.Context, req LeaveRequest) (Left, error)

	// Look reads the part of a line that stands before and at a place. The
	// state it shows is not older than req.NotBefore. It need not be the
	// newest.
	Look(ctx context.Context, req LookRequest) (View, error)

	// Watch tells f what happens to an entry until cancel is called. The entry
	// must be one that this Session has made, or was shown by a Look or a Join:
	// of any other, a server that lags behind may not know yet. See
	// Event for what comes and in which order. It does not block and sends in
	// the background; f may be called once more while cancel runs, never
	// after a Gone. Cancel is idempotent.
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

// JoinRequest says what to put at the end of which line.
type JoinRequest struct {
	Line   string
	Mode   Mode
	Weight int64 // of a semaphore's request; 0 elsewhere
	Meta   Meta

	// IfEmpty makes Join write nothing unless the line has no entry at all.
	IfEmpty bool

	// Nearest is how many of the nearest entries ahead the caller would like to
	// be told of, if that costs nothing more; 0 means all of them.
	Nearest int
}

// Joined is an entry just made.
type Joined struct {
	Entry Entry

	// Rev is when the entry was made: what happens to it after Rev is told by a
	// watch with Since, and Ahead and Known are as of Rev or later. 0 if the
	// service has no such number.
	Rev int64

	// Ahead is how many entries were ahead.
	Ahead int

	// Known are entries ahead, in order of place, as far as the answer happened
	// to tell. It holds all of them if len(Known) == Ahead; otherwise it says
	// nothing of who is nearest, unless Near does.
	Known []Entry

	// Near says that nobody stands between the last of Known and the entry, nor
	// between any two of them: a Look with JoinRequest.Nearest would show them.
	Near bool
}

// LeaveRequest names the entry to delete.
type LeaveRequest struct {
	Ref Ref

	// Held says that the entry holds and admits nobody beside it. A backend
	// that can leaves word of it for those who watch, see Event.Held.
	Held bool

	// Probe, unless zero, is the entry of this Session that stands right
	// behind, whose life is to be checked at the moment of the deletion if that
	// costs nothing.
	Probe Ref
}

// Left is the answer to a Leave.
type Left struct {
	Rev    int64 // of the deletion; 0 if not known
	Probed bool  // Probe was checked at the deletion ...
	Alive  bool  // ... and was alive then
}

// LookRequest says which part of a line to read.
type LookRequest struct {
	Line string

	// Upto is the last place of interest.
	Upto int64

	// Nearest is how many entries before Upto are wanted, those nearest to it;
	// 0 means all of them.
	Nearest int

	// NotBefore is a Rev that the answer must not be older than.
	NotBefore int64
}

// View is a line, or its end, as it was at Rev.
type View struct {
	Rev int64

	// Entries stand in order of place, none behind Upto; the entry at Upto is
	// the last, if it is alive.
	Entries []Entry

	// Complete says that nobody stands before Entries[0] (or at all, if there
	// are none).
	Complete bool
}

// WatchRequest names an entry to watch.
type WatchRequest struct {
	Ref Ref

	// Own marks an entry of this Session. Watches on own entries of one line
	// may share one at the service.
	Own bool

	// Since, unless 0, wants every event after that Rev, at the price of a
	// late start. It is for entries that nobody waits for.
	Since int64

	// Changes wants Changed events too, not only Gone.
	Changes bool

	// Tell asks for Event.Held, for which the end of the entry may be told one
	// read later.
	Tell bool
}

// Event is what a watch tells.
type Event struct {
	Kind EventKind
	Rev  int64 // 0 if the service has no such number, or none for this event

	// Held comes with Gone, and only where WatchRequest.Tell asked for it: the
	// entry held and admitted nobody beside it when its owner gave it back. So
	// nobody was ahead of it, and whoever stood right behind it is first now.
	// False means that this is not known.
	Held bool
}

// EventKind says what happened.
type EventKind int

// The kinds of events. A watch begins with Armed or Gone. After Broken comes
// Armed again (or Gone), and what lies between is unknown: look.
const (
	// Armed: whatever happens to the entry after Rev will be told. A look that
	// is not older than Rev therefore closes the gap before it. With Since, Rev
	// is Since, or more if the service has forgotten what was between. With a
	// Rev of 0 there is no gap: the entry lives at that moment, and one that
	// does not is told by Gone instead, also after Broken.
	Armed EventKind = iota + 1
	// Changed: the entry's owner changed it.
	Changed
	// Gone: the entry is no more. It is the last event.
	Gone
	// Broken: events may have been lost; the watch is being made anew.
	Broken
)
