package session

import (
	"context"
	"time"
)

// Hooks are called when something has happened; any may be nil. They report every
// request for a lock from its start to its outcome, and every hold from its grant to
// its end, so that metrics and traces can be built from them alone.
//
// # Requests and holds
//
// A request is one call of Lock, RLock, Acquire, Campaign, LockAll, of their Try forms,
// or of what calls them. Hooks of one request are called in this order, with the same
// Event.ID:
//
//	Started, then Joined, Position and Rejoined in any number, then Ended;
//	and if Event.Outcome is OutcomeGranted: Released or Lost.
//
// Exactly one Ended follows every Started, and exactly one of Released and Lost follows
// every Ended with OutcomeGranted. So a gauge that Started raises and Ended lowers
// counts the waiters, and one that a grant raises and Released and Lost lower counts
// the holds. In particular:
//
//   - The name is invalid, an argument or an option is wrong, the context comes from a
//     live hold of the lock (ErrReentrant), or the Session is closed: Started, and Ended
//     with OutcomeRefused.
//   - Session.Close while the request waits: Ended with OutcomeRefused and ErrClosed.
//   - The grant and the end of the context race, and the grant is undone: Ended with
//     OutcomeGaveUp.
//   - The place is lost, with the service session or by an operator: Rejoined, and the
//     request goes on.
//   - Unlock returns ErrReleasePending: Released with that error. What finishes the
//     release later fires no hook, nor does the time that MinHold adds.
//   - The Session passes a lock on to its own next request: Ended for that one may come
//     before Released.
//   - Unlock finds that the hold had ended: Lost, unless it was called before.
//   - Session.Close while the lock is held: Lost with ReasonClosed.
//   - Reentrant handles and RWLock.Downgrade: no hooks. All handles are one hold, which
//     ends with the last of them.
//
// The exceptions are calls that name no Session: on a nil or zero Session, and LockAll
// of fewer than two locks, of a nil one, or of locks of different Sessions. They fire
// no hook.
//
// # When they run
//
// Started and Trace run in the goroutine of the caller and delay that call only. A goroutine
// of the Session calls all others and the Logger, one after the other, in the order in
// which things happened and a moment later; Event.At is when they happened. Nothing waits
// for them but Open and Close, which return when the earlier ones have returned. A hook for
// a request that ends after Close runs in the goroutine of such a request's caller.
//
// Hooks should return soon. Of more than 10 000 reports that wait for them and for the
// Logger, the Session drops further Joined, Position, Rejoined, SessionRenewed and log
// records, and logs how many. It never drops the others, or gauges would drift: while a
// hook blocks, each of them takes about 300 bytes. Hooks must not close the Session, make
// requests on it, or panic.
type Hooks struct {
	// Started is called before anything of a request is sent. The request goes on with
	// the context that Started returns, which must be derived from ctx; nil stands for
	// ctx itself. All later hooks of the request get a context with its values, and so
	// does the hold: Hold.Context. If each of a chain of locks is acquired with the
	// Context of the hold before, contexts that Started derives keep the whole chain.
	Started func(ctx context.Context, e Event) context.Context

	// Trace returns the trace that a request belongs to, as its entries shall name it: a
	// W3C traceparent, for example. It is called in the goroutine of the request, before
	// each join, with the context that Started returned. Each client that can read the
	// queue sees it as Entry.Trace, so a request that gave up can link its trace to that of
	// the holder: see Event.WaitedFor. A text that is longer than 64 bytes, or not printable
	// ASCII without spaces, is left out.
	Trace func(ctx context.Context) string

	// Joined is called when a request has its place in the queue, or in all queues that
	// it needs. Event.Ahead is the number of entries ahead.
	Joined func(ctx context.Context, e Event)

	// Position is called when a waiting request has learned of a new place. A request
	// reads its queue only when it must, so not every step is reported.
	Position func(ctx context.Context, e Event)

	// Rejoined is called when a waiting request has lost its place and goes to the end
	// of the queue. Event.Err is the reason.
	Rejoined func(ctx context.Context, e Event)

	// Ended is called when a request has its outcome, which is Event.Outcome. Event.Err
	// is the error that the caller gets, without the recipe's prefix. ctx may have ended.
	Ended func(ctx context.Context, e Event)

	// Released is called when Unlock has released a hold. Event.Err is nil, or
	// ErrReleasePending with its reason. ctx has not ended, here and in Lost.
	Released func(ctx context.Context, e Event)

	// Lost is called when a hold has ended before its Unlock. Event.Err is the
	// *LostError.
	Lost func(ctx context.Context, e Event)

	// SessionOpened is called when a service session was opened, the first or a later
	// one. Exactly one of SessionLost and SessionClosed follows.
	SessionOpened func(e Event)

	// SessionRenewed is called when the service has acknowledged a renewal. Event.Left
	// is the time to the deadline.
	SessionRenewed func(e Event)

	// SessionLost is called when a service session was lost: its deadline has passed, or
	// the service no longer has it. It comes after Lost for its holds, unless one is
	// being unlocked at that moment. Event.Err is the *LostError.
	SessionLost func(e Event)

	// SessionClosed is called when Close has begun to end a service session, or when the
	// client that it uses was closed, after Lost for its holds. Close then waits until
	// the holders have released, before it ends the session at the service.
	SessionClosed func(e Event)
}

// requests reports whether a hook for requests is set.
func (h *Hooks) requests() bool {
	return h.Started != nil || h.Joined != nil || h.Position != nil || h.Rejoined != nil ||
		h.Ended != nil || h.Released != nil || h.Lost != nil
}

// Event is what a hook is called with. Fields that do not apply, or are not known yet,
// are zero.
type Event struct {
	At time.Time // when it happened, by the wall clock

	// ID is that of the request, the same from Started to Released or Lost. No other
	// request of the Session has it. Events of sessions have none.
	ID uint64

	Name   string   // the lock; several as Hold.Name shows them
	Names  []string // of LockAll, all; nil elsewhere. Do not change it
	Kind   string   // the recipe: "mutex"
	Mode   Mode     // as requested
	Weight int64    // permits, of a semaphore's request

	// Session is the service session, from Joined on.
	Session string

	// Token is that of the entry from Joined on, and that of the hold from a grant on:
	// another one for a semaphore with Slots.
	Token Token

	// Ahead is the number of entries ahead, as last known: of several queues, in the one
	// where it is largest.
	Ahead int

	// Outcome is set from Ended on.
	Outcome Outcome

	// WaitedFor is, in Ended, the entry that the request waited for last: if it was
	// granted, the one whose end granted it, as far as this process knows. It is nil if
	// the request did not wait, and if this process knows none. Key identifies that
	// hold, and so do Token and Session on a service that shows them with the place.
	// Nothing is read for it, so a grant leaves out Host, PID, Label, Trace and times; a
	// request that gave up has those that its error has.
	WaitedFor *Entry

	Waited time.Duration // from Started to this event, at most to Ended
	Held   time.Duration // from the grant to Released or Lost
	Left   time.Duration // to the deadline; of SessionOpened, SessionRenewed and a grant
	Err    error
}

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	// OutcomeGranted: the caller holds.
	OutcomeGranted Outcome = "granted"

	// OutcomeTaken: a Try found that it would have to wait.
	OutcomeTaken Outcome = "taken"

	// OutcomeGaveUp: the context ended, or a Try had no answer in time.
	OutcomeGaveUp Outcome = "gave up"

	// OutcomeRefused: an error that waiting cannot cure.
	OutcomeRefused Outcome = "refused"
)
