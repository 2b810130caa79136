// Package rwlock is a fair, fenced lock of readers and writers over one name.
//
//	rw := rwlock.New(s, "config")
//	err := rw.RDo(ctx, func(ctx context.Context, h *session.Hold) error {
//		return read(ctx, h.Token()) // beside other readers, never beside a writer
//	})
//
// Requests are granted in the order in which the service received them. Readers
// hold together until a writer is in line: readers that come after it wait for
// it, so neither side can starve.
//
// Tokens rise with the order of the requests: a writer's is above all before it,
// a reader's above that of every earlier writer. So a resource accepts a writer
// if its token is not below any that it has seen, and a reader if its token is
// not below that of any writer that it has seen.
package rwlock

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and in the line.
const kind = "rwlock"

// RWLock is a lock that many read or one writes, over all processes that use the
// same name on the same service. It is a name and a session, nothing more: cheap,
// stateless, and safe for concurrent use. Two goroutines are two readers, or
// exclude each other, also through the same Session.
type RWLock struct {
	s    *session.Session
	name string
}

// Options are what NewWith takes. There are none yet: the type is here so that the
// constructors of all recipes have one shape.
type Options struct{}

// New returns the lock of that name. It sends nothing and cannot fail; the first call
// returns the error for a bad name or session.
func New(s *session.Session, name string) *RWLock { return NewWith(s, name, Options{}) }

// NewWith is New with options.
func NewWith(s *session.Session, name string, _ Options) *RWLock {
	return &RWLock{s: s, name: name}
}

// Name is the name of the lock.
func (l *RWLock) Name() string { return l.name }

// RLock waits until no writer is ahead, and returns a hold that others may share.
// ctx bounds the waiting only, and ends it as in mutex.Lock.
//
// With a ctx that comes from a live hold of this lock, read or write, it returns
// one more handle on that at once, with the same token, and without a word to the
// service. The lock is given back with the last handle. If the write hold is given
// back before that, it becomes a read hold, in its place: a downgrade. With a ctx
// that comes from another recipe's hold of the same name it returns
// session.ErrReentrant, because it would wait for itself.
func (l *RWLock) RLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "rlock", driver.Shared, false)
}

// Lock waits until nobody is ahead, and returns a hold that excludes everybody.
// ctx bounds the waiting only, and ends it as in mutex.Lock. With a ctx that comes
// from a live hold of this lock it returns session.ErrReentrant, because it would
// wait for itself: two readers who both want to write would do so for ever.
func (l *RWLock) Lock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "lock", driver.Exclusive, false)
}

// TryRLock is RLock for those who will not wait: it returns an error that is
// session.ErrNotAcquired if a writer holds or waits, and names who is first. Then
// it has written nothing at the service, unless others joined in that instant. If
// the service does not answer, the error is session.ErrUnavailable, after at most 5 s.
func (l *RWLock) TryRLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "try rlock", driver.Shared, true)
}

// TryLock is Lock for those who will not wait: it returns an error that is
// session.ErrNotAcquired if anybody holds or waits, and names who is first. Then
// it has written nothing at the service. While the service does not answer it is
// bounded as TryRLock is.
func (l *RWLock) TryLock(ctx context.Context) (*session.Hold, error) {
	return l.acquire(ctx, "try lock", driver.Exclusive, true)
}

// acquire is all four.
func (l *RWLock) acquire(ctx context.Context, op string, mode driver.Mode, try bool) (*session.Hold, error) {
	h, err := l.enter(ctx, mode)
	if h == nil {
		h, err = queue.Acquire(ctx, l.s, queue.Request{
			Name: l.name, Kind: kind, Mode: mode, Kin: driver.KinReadWrite, Rule: queue.ReadWrite(), Try: try, Err: err,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("rwlock: %s %q: %w", op, l.name, err)
	}
	return h, nil
}

// enter looks whether the caller is inside already. It returns neither hold nor
// error if not.
func (l *RWLock) enter(ctx context.Context, mode driver.Mode) (*session.Hold, error) {
	h := queue.Core().Inside(ctx, l.s, l.name)
	switch {
	case h == nil:
		return nil, nil //nolint:nilnil // "not inside" is neither
	case mode != driver.Shared, !queue.Core().Inner(h).Of(l.s, kind, l.name):
		return nil, session.ErrReentrant
	}
	h, err := queue.Core().Inner(h).Reenter(ctx, driver.Shared)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // it ended in this instant: not inside any more
	}
	return h, nil
}

// Downgrade makes a write hold a read hold: the readers behind it are let in, up to
// the next writer, and no writer can get in between. Place, token and context stay;
// ask for a Guard anew. Write no more from the call on. ctx bounds the asking, and
// so does the hold.
//
// It returns session.ErrNotWriter for a read hold and for a hold of another lock
// or Session, session.ErrLost or ErrUnlocked for one that is over, and then nothing
// was sent unless it ended meanwhile. After session.ErrDenied and ErrRefused the
// hold is what it was. After any other error, ctx's own for example, it is being
// finished in the background: readers may have been let in already. It may be
// called again, to wait for that, and the hold may be unlocked at any time.
func (l *RWLock) Downgrade(ctx context.Context, h *session.Hold) error {
	err := session.ErrNotWriter
	if inner := queue.Core().Inner(h); inner.Of(l.s, kind, l.name) {
		err = inner.Downgrade(ctx)
	}
	if err != nil {
		return fmt.Errorf("rwlock: downgrade %q: %w", l.name, err)
	}
	return nil
}

// RDo holds the lock as a reader while fn runs, as mutex.Do does: fn's context ends
// with ctx and when the lock is lost, the lock is given back when fn has returned,
// and a loss is told even if fn returned nil.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, l.RLock, fn)
}

// TryRDo is RDo with TryRLock instead of RLock: if a writer holds or waits, fn is not
// called, and the error is session.ErrNotAcquired.
func (l *RWLock) TryRDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, l.TryRLock, fn)
}

// Do holds the lock as a writer while fn runs, as mutex.Do does; see RDo.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, l.Lock, fn)
}

// TryDo is Do with TryLock instead of Lock: if the lock is taken, fn is not called,
// and the error is session.ErrNotAcquired.
func (l *RWLock) TryDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, l.TryLock, fn)
}

// Queue returns the line in order: holders first, then those who wait, with mode,
// token, host, pid, label and since when. Entries of other programs are in it, and
// count as writers unless their names say that they read.
func (l *RWLock) Queue(ctx context.Context) ([]session.Entry, error) {
	return queue.List(ctx, l.s, kind, l.name)
}
