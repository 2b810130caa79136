// Package rwlock provides a fair, fenced read-write lock over one name.
//
//	rw := rwlock.New(s, "config")
//	err := rw.RDo(ctx, func(ctx context.Context, h *session.Hold) error {
//		return read(ctx, h.Token()) // together with other readers, never with a writer
//	})
//
// Requests are granted in the order in which the service received them. Readers hold
// together until a writer joins the queue. Readers that join after it wait for it, so
// neither readers nor writers starve.
//
// Tokens rise in the order of the requests: a writer's token is higher than all before
// it, and a reader's is higher than that of every earlier writer. So a resource accepts
// a writer whose token is not lower than any token it has seen, and a reader whose
// token is not lower than that of any writer it has seen.
package rwlock

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and entries.
const kind = "rwlock"

// RWLock is a lock with many readers or one writer, among all processes that use the
// same name on the same service. An RWLock is only a name and a session: it is cheap,
// has no state, and is safe for concurrent use. Each request counts for itself, even
// through the same Session: two goroutines are two readers, or they exclude each other.
type RWLock struct {
	s    *session.Session
	name string
}

// Options are what NewWith takes. There are none yet: the type exists so that the
// constructors of all recipes have one shape.
type Options struct{}

// New returns the lock of that name. It sends nothing and cannot fail; the first call
// returns the error for a bad name or session.
func New(s *session.Session, name string) *RWLock { return NewWith(s, name, Options{}) }

// NewWith is New with options.
func NewWith(s *session.Session, name string, _ Options) *RWLock {
	return &RWLock{s: s, name: name}
}

// Name returns the name of the lock.
func (l *RWLock) Name() string { return l.name }

// RLock blocks until no writer is ahead, and returns a read hold, which other readers
// share. ctx bounds only the wait, and ends it as in mutex.Lock.
//
// If ctx belongs to a live hold of this lock, read or write, RLock returns another
// handle on that hold at once, with the same token, and sends nothing. The lock is
// released with the last handle. If the write handle is unlocked before the others, the
// hold becomes a read hold in its place, as with Downgrade. If ctx belongs to the hold
// of another recipe under the same name, RLock returns session.ErrReentrant, because
// the request would wait for itself.
func (l *RWLock) RLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "rlock", driver.Shared, false)
}

// Lock blocks until no entry is ahead, and returns a write hold, which excludes all
// others. ctx bounds only the wait, and ends it as in mutex.Lock. If ctx belongs to a
// live hold of this lock, Lock returns session.ErrReentrant, because the request would
// wait for itself: two readers that both want to become the writer would never end.
func (l *RWLock) Lock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "lock", driver.Exclusive, false)
}

// TryRLock is RLock without waiting: if a writer holds or waits, it returns an error
// that is session.ErrNotAcquired and names the first entry. It has written nothing at
// the service then, unless other requests joined at the same moment. If the service
// does not answer, it returns session.ErrUnavailable after at most 5 s, or, with ctx's own
// error, when ctx ends.
func (l *RWLock) TryRLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "try rlock", driver.Shared, true)
}

// TryLock is Lock without waiting: if the queue is not empty, it returns an error that
// is session.ErrNotAcquired and names the first entry. It has written nothing at the
// service then. If the service does not answer, it returns as TryRLock does.
func (l *RWLock) TryLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "try lock", driver.Exclusive, true)
}

// acquire is Lock, RLock, TryLock and TryRLock.
func (l *RWLock) acquire(ctx context.Context, op string, mode driver.Mode, try bool) (*session.Hold, error) {
	h, err := session.Engine(door.Key{}).Acquire(ctx, l.s, engine.Request{
		Name: l.name, Kind: kind, Mode: mode, Family: driver.FamilyReadWrite, Rule: rule.ReadWrite(), Try: try,
		Reenter: mode == driver.Shared,
	})
	if err != nil {
		return nil, fmt.Errorf("rwlock: %s %q: %w", op, l.name, err)
	}
	return h, nil
}

// Downgrade turns a write hold into a read hold. The readers behind it, up to the next
// writer, are granted at once, and no writer can hold in between. The entry keeps its
// place, the token and the context stay the same, and a Guard must be made again. Stop
// writing before you call Downgrade. The end of ctx or of the hold ends the call.
//
// Downgrade returns session.ErrNotWriter for a read hold and for a hold of another lock
// or Session, and session.ErrLost or ErrUnlocked for a hold that is over; nothing was
// sent then, unless the hold ended during the call. After session.ErrDenied and
// ErrRefused the hold is still a write hold. After any other error, such as ctx's own,
// the session finishes the downgrade in the background, and readers may hold already.
// Call Downgrade again to wait for that. The hold can be unlocked at any time.
func (l *RWLock) Downgrade(ctx context.Context, h *session.Hold) error {
	err := session.ErrNotWriter
	in := session.Engine(door.Key{})
	o := in.Hold(h)
	if o.Of(in.Of(l.s), kind, l.name) {
		err = o.Downgrade(ctx)
	}
	if err != nil {
		return fmt.Errorf("rwlock: downgrade %q: %w", l.name, err)
	}
	return nil
}

// RDo acquires the lock as a reader, calls fn and releases the lock, as mutex.Do does:
// fn's context is cancelled when ctx is, and when the lock is lost; RDo releases the
// lock after fn has returned, and reports a loss even if fn returned nil.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, l.RLock, fn)
}

// TryRDo is RDo with TryRLock instead of RLock: if a writer holds or waits, TryRDo
// returns an error that is session.ErrNotAcquired and does not call fn.
func (l *RWLock) TryRDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, l.TryRLock, fn)
}

// Do acquires the lock as a writer, calls fn and releases the lock, as mutex.Do does.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, l.Lock, fn)
}

// TryDo is Do with TryLock instead of Lock: if the lock is held, or a request waits for
// it, TryDo returns an error that is session.ErrNotAcquired and does not call fn.
func (l *RWLock) TryDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, l.TryLock, fn)
}

// Queue returns the queue in order, holders first. It includes entries of other
// programs, which count as writers unless their names mark them as readers.
func (l *RWLock) Queue(ctx context.Context) ([]session.Entry, error) {
	return recipe.List(ctx, l.s, kind, l.name)
}
