// Package door keeps what is for this module's own packages out of users' reach,
// where Go has no other means: a function that takes a [Key] can be called only by a
// package that can import this one. What packages above session need of it beyond what
// users see is declared here, and session.Engine gives it to them.
package door

import (
	"context"
	"log/slog"
	"time"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Key opens the door. Its zero value is ready to use. Code outside of this module
// cannot name the type, and the field keeps it from giving a struct{} in its place.
type Key struct{ _ sealed }

type sealed struct{}

// Engine is package session as the recipes, the engine, the backends and the command
// line of this module see it. The type parameters are session's Session, Hold, Entry
// and Options, which this package cannot import.
type Engine[S, H, E, O any] struct {
	// Open opens a Session on a backend, which the Session owns from then on, also when
	// Open fails. It returns when the first service session is there, or when ctx ends
	// (after 5 s if ctx has no deadline), with ErrInvalidOptions, ErrDenied, ErrRefused
	// or ErrUnavailable. ctx bounds the opening only.
	Open func(ctx context.Context, b driver.Backend, o *O) (*S, error)

	// ForTools makes Open succeed also where the service takes no new sessions, as a full
	// etcd does. The Session then reads and evicts, and has no term until the service gives
	// it one.
	ForTools func(o *O)

	// Of returns the inner side of a Session; nil stands for a closed one.
	Of func(s *S) Session

	// Grant makes a Hold of a grant. It returns a *LostError if the term has ended: the
	// deadline is checked once more, because the grant may be old in a starved process.
	// ctx gives the hold's context its values.
	Grant func(ctx context.Context, s *S, t *Term, g Grant) (*H, error)

	// Start begins a request, as the hooks see it, and returns the context that it goes on
	// with. It fires the hook Started. Request.Ended must follow.
	Start func(ctx context.Context, s *S, r Start) (context.Context, Request)

	// Inner returns the inner side of a Hold; nil stands for one of no lock.
	Inner func(h *H) Hold[S]

	// Enter returns one more handle on the live hold of the named lock, acquired through s,
	// that ctx came from, and nil if ctx came from none. If another recipe than kind has
	// acquired that hold, the error is ErrReentrant: a request would wait for itself. A
	// recipe that is not reentrant passes no kind. Go has no thread identity, so ownership
	// travels in the context: every goroutine that was given a hold's context is inside.
	//
	// The lock is released when the last handle is unlocked. A handle of mode Shared on an
	// exclusive hold is that of a writer that reads too. When no other handles are left,
	// the entry admits readers.
	Enter func(ctx context.Context, s *S, name, kind string, mode driver.Mode) (*H, error)

	// Within returns an error that wraps ErrReentrant if ctx came from a live hold of
	// another lock, acquired through s, whose entry the queue of the named lock contains
	// as well: see driver.Info.Within. A request for that lock would wait for itself.
	Within func(ctx context.Context, s *S, name string) error

	// Held returns the names of the live holds that ctx came from, innermost first. It is
	// put into the entry that the caller joins with, so that deadlocks can be found.
	Held func(ctx context.Context) []string

	// Entry returns an entry as users see it, Entries a whole queue of a limit (0 if it
	// has none), and Detail what an entry was made of (see MetaOf).
	Entry   func(place int, holds bool, e driver.Entry) E
	Entries func(queue []driver.Entry, limit int64) []E
	Detail  func(e E) driver.Entry

	// Queue is Session.Queue, with the limit if the queue is that of a semaphore.
	Queue func(ctx context.Context, s *S, name string) ([]E, int64, error)
}

// Session is the inner side of a session.Session.
type Session interface {
	// Term returns the live term, opening one if need be. It waits for as long as ctx
	// lets it while the service is unreachable, and gives up at once where waiting cannot
	// help: ErrClosed, ErrDenied, ErrRefused.
	Term(ctx context.Context) (*Term, error)

	// Clock is the backend's clock; the system's for a Session that was never opened.
	Clock() driver.Clock

	// Info is that of the backend; zero for a Session that was never opened.
	Info() driver.Info

	// Logger gets records for the user's logger, and never blocks.
	Logger() *slog.Logger

	// Meta is what the entries of this Session claim about their owner.
	Meta() Meta

	// Hooked reports whether hooks are called for requests.
	Hooked() bool

	// Traces reports whether the entries of this Session name a trace, and so whether a
	// request wants to know that of the entry it waits for.
	Traces() bool

	// Trace returns the trace of a request with that context, empty if there is none.
	Trace(ctx context.Context) string

	// CheckName returns an error that wraps ErrInvalidName if no lock of this Session can
	// have that name: it is empty, longer than MaxName bytes, not UTF-8, holds a NUL, or
	// the layout of the backend cannot hold it. Nothing is sent.
	CheckName(name string) error

	// Bounded returns a context for a call that does not wait for a lock: ctx, which ends
	// at the latest after 5 s if it has no deadline. The Session was opened.
	Bounded(ctx context.Context) (context.Context, context.CancelFunc)

	// Read reads a queue as it is now, whether or not there is a live term.
	Read(ctx context.Context, req driver.ReadRequest) (driver.View, error)

	// Limit returns the limit of a semaphore, 0 if it has none yet.
	Limit(ctx context.Context, name string) (int64, error)

	// Holds reports whether this Session has a live hold of that lock and recipe.
	Holds(kind, name string) bool
}

// Term is one service session under a Session, from its opening to its end. The cause of
// its context is a *LostError.
type Term = term.Term

// Start is what hooks see of a request when it starts.
type Start struct {
	Name   string // as Grant.Name
	Names  []string
	Kind   string
	Mode   driver.Mode
	Weight int64
}

// Request is a request as the hooks see it. Its methods call no hook themselves, but
// for Ended after Close, so they may be called while mutexes are held. The turn that
// Joined returns names the places that the request got by it: what is reported of
// places that it has lost since is ignored.
type Request interface {
	// Joined reports that the request has places in all its queues, with that token:
	// how many entries are ahead in the first queue, and in each further one.
	Joined(t *Term, token int64, ahead int, further ...int) (turn int)

	// Position reports how many entries are ahead in one of the queues.
	Position(turn, queue, ahead int)

	// WaitsFor reports which entry the request waits for, or waited for last. The entry must
	// not change.
	WaitsFor(turn int, e *driver.Entry)

	// Rejoined reports that the places were lost, and why.
	Rejoined(err error)

	// Ended reports that the request failed. It does nothing if there was a grant.
	Ended(err error)
}

// Hold is the inner side of a session.Hold. Its methods can end a hold, or make it admit
// others, so users cannot get one.
type Hold[S any] interface {
	// Of reports whether the hold is one of that lock, acquired through that Session by
	// that recipe. It is false for nil and for a zero Hold.
	Of(s *S, kind, name string) bool

	// Downgrade makes an exclusive hold one that admits others of its kind: a writer
	// becomes a reader. The recipe has checked that the hold is its own. Errors are
	// those of rwlock.RWLock.Downgrade.
	Downgrade(ctx context.Context) error

	// Write changes the value of the hold's entry. The recipe has checked that the hold
	// is its own, and that its entries have values. It fails with ErrLost or ErrUnlocked
	// if the hold is over, or ends meanwhile. After any other error it is not known
	// whether the value was changed.
	Write(ctx context.Context, value []byte) error

	// EntryGone ends the hold, because another client has deleted its entry.
	EntryGone()

	// Refs names the entries behind the hold, for guarded writes to the same store.
	Refs() []driver.Ref

	// Service is the name of the service that gave the hold: "etcd".
	Service() string

	// Previous is how the hold before this one ended, if the lock has a ledger.
	Previous() Past
}

// Past is how the hold before one ended.
type Past uint8

// How the hold before ended.
const (
	PastUnknown Past = iota // no ledger was read
	PastClean               // by a release, or no entry has held under this ledger before
	PastDied                // the entry went by itself: its owner died, or lost it
)

// Grant is what a recipe makes a Hold of.
type Grant struct {
	Name  string   // the lock
	Names []string // all of them, if they are several
	Kind  string   // the recipe
	Token int64    //

	// Refs are the entries that hold.
	Refs []driver.Ref

	// Request is the request that is granted; nil if no hook is to see it.
	Request Request

	// Past is how the hold before this one ended, if the lock has a ledger.
	Past Past

	// Slot is the number that no other hold of the lock has; -1 if it was not
	// asked for.
	Slot int

	// Mode is what the hold shares the lock with, at first.
	Mode driver.Mode

	// MinHold is for how long the entries stay, from the grant on, if the hold is
	// released before.
	MinHold time.Duration

	// Released records that the hold was released, where MinHold keeps its entries; nil if
	// nothing records how holds end. Errors are as of Release.
	Released func(ctx context.Context) error

	// Release deletes the entries. It is idempotent. Nil: they are gone by this release.
	// ErrGone: one of them was gone before. Any other error: unknown; call it again.
	Release func(ctx context.Context) error

	// Drop deletes what is left of several entries when the hold was lost with one
	// of them; nil if there is only one.
	Drop func(ctx context.Context) error

	// Share makes the entry admit others of its kind; nil if that cannot be. Errors are as
	// of Release.
	Share func(ctx context.Context) error

	// Write changes the value of the entry; nil if it has none. Errors are as of Release.
	Write func(ctx context.Context, value []byte) error
}
