// Package semaphore is a fair, weighted semaphore over one name: a number of
// permits that all processes share.
//
//	gpus := semaphore.New(s, "gpu", 8)
//	err := gpus.Do(ctx, 3, func(ctx context.Context, h *session.Hold) error {
//		return train(ctx) // with three of the eight
//	})
//
// Requests are granted in the order in which the service received them. A request
// gets all its permits at once or waits, and nobody overtakes it, however little
// they want: so large requests do not starve, and two that want everything never
// wait for each other. The permits of a process that dies come back by themselves.
//
// A token does not fence a resource that several use at once, since the holders'
// tokens have no order among each other that means anything. Give each hold a
// part of the resource by its slot (see Options.Slots), and fence every part.
package semaphore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and in the line.
const kind = "semaphore"

// MaxLimit is the most permits that a semaphore has.
const MaxLimit = 1 << 40

// Semaphore is a number of permits. It is a name, a session and a limit, cheap
// and safe for concurrent use. Goroutines count each for itself, also through the
// same Session.
type Semaphore struct {
	s     *session.Session
	name  string
	limit atomic.Int64 // what the caller says, or has changed it to
	opts  Options
}

// Options are what NewWith takes. The zero value is what New uses.
type Options struct {
	// Follow takes any limit that the semaphore has at the service; the one that
	// is given is only what a new one begins with. Without it another limit is
	// session.ErrLimitMismatch, so that two versions of a program do not believe
	// in different numbers. Programs whose semaphores are resized set it.
	Follow bool

	// Slots gives each hold a number of its own, Hold.Slot: the lowest from 0 on
	// that no other living hold has, below the limit unless that was lowered, or
	// somebody has just deleted a hold's entry by hand. It costs one or two round
	// trips more.
	//
	// The hold's token is then one of the slot: it rises with every hold that gets
	// the slot, and a resource that is fenced by slot accepts all that live. It is
	// not the one that Queue shows, which tells the place in the line.
	Slots bool
}

// New returns the semaphore of that name, with that limit. It sends nothing and
// cannot fail; what is wrong with it is told by the first call.
//
// The limit lives at the service, from the first Acquire on until Resize, and
// stays there when nobody uses the semaphore any more. See Options.Follow.
func New(s *session.Session, name string, limit int64) *Semaphore {
	return NewWith(s, name, limit, Options{})
}

// NewWith is New with options.
func NewWith(s *session.Session, name string, limit int64, o Options) *Semaphore {
	m := &Semaphore{s: s, name: name, opts: o}
	m.limit.Store(limit)
	return m
}

// Name is the name of the semaphore.
func (m *Semaphore) Name() string { return m.name }

// Acquire waits its turn and returns a hold of n permits. ctx bounds the waiting
// only, and ends it as in mutex.Lock.
//
// It returns session.ErrWeight at once if n is below 1 or above the limit, also
// when the limit is lowered below n while it waits; session.ErrLimitMismatch if
// the semaphore has another limit than the caller says; session.ErrReentrant if
// ctx comes from a live hold of this semaphore, because it could wait for itself;
// session.ErrRefused if somebody deletes the limit at the service meanwhile.
func (m *Semaphore) Acquire(ctx context.Context, n int64) (*session.Hold, error) {
	return m.acquire(ctx, "acquire", n, false)
}

// TryAcquire is Acquire for those who will not wait: it returns an error that is
// session.ErrNotAcquired if there are not enough permits, or others wait, and
// names who is first. Then it has written nothing at the service, unless others
// joined in that instant. If the service does not answer, the error is
// session.ErrUnavailable, after at most 5 s.
func (m *Semaphore) TryAcquire(ctx context.Context, n int64) (*session.Hold, error) {
	return m.acquire(ctx, "try to acquire", n, true)
}

// acquire is Acquire and TryAcquire.
func (m *Semaphore) acquire(ctx context.Context, op string, n int64, try bool) (*session.Hold, error) {
	limit := m.limit.Load()
	err := m.check(limit, n)
	if err == nil && queue.Core().Inside(ctx, m.s, m.name) != nil {
		err = session.ErrReentrant
	}
	h, err := queue.Acquire(ctx, m.s, queue.Request{
		Name: m.name, Kind: kind, Mode: driver.Weighted, Weight: n, Rule: queue.Semaphore(), Try: try,
		Limit: limit, Follow: m.opts.Follow, Slots: m.opts.Slots, Err: err,
	})
	if err != nil {
		return nil, fmt.Errorf("semaphore: %s %d of %q: %w", op, n, m.name, err)
	}
	return h, nil
}

// check says what is wrong with a request, as far as that is known here.
func (m *Semaphore) check(limit, n int64) error {
	if err := checkLimit(limit); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%w: at least 1", session.ErrWeight)
	}
	if n > limit && !m.opts.Follow {
		return fmt.Errorf("%w: the limit is %d", session.ErrWeight, limit)
	}
	return nil
}

// checkLimit says what is wrong with a limit.
func checkLimit(limit int64) error {
	if limit < 1 || limit > MaxLimit {
		return fmt.Errorf("%w: a limit of %d: it must be at least 1 and at most %d", session.ErrInvalidOptions, limit, int64(MaxLimit))
	}
	return nil
}

// Do holds n permits while fn runs, as mutex.Do does.
func (m *Semaphore) Do(ctx context.Context, n int64, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, func(ctx context.Context) (*session.Hold, error) { return m.Acquire(ctx, n) }, fn)
}

// TryDo is Do with TryAcquire instead of Acquire: if there are not enough permits, or
// other requests wait, fn is not called, and the error is session.ErrNotAcquired.
func (m *Semaphore) TryDo(ctx context.Context, n int64, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, func(ctx context.Context) (*session.Hold, error) { return m.TryAcquire(ctx, n) }, fn)
}

// Resize gives the semaphore another limit, at the service, and to this
// Semaphore; others learn of it if they follow (see Options). When it is raised,
// those who fit now are let in at once. When it is lowered, holders keep what
// they have, and the next is let in when enough has been given back; who waits
// for more than there will ever be gets session.ErrWeight.
//
// It fails with session.ErrDenied if the caller may not write there. With an
// error that is neither that nor session.ErrRefused it is not known whether it
// was done; it may be called again.
func (m *Semaphore) Resize(ctx context.Context, limit int64) error {
	err := checkLimit(limit)
	if err == nil {
		err = queue.SetLimit(ctx, m.s, m.name, limit)
	}
	if err != nil {
		return fmt.Errorf("semaphore: resize %q to %d: %w", m.name, limit, err)
	}
	m.limit.Store(limit)
	return nil
}

// Limit returns how many permits the semaphore has at the service, 0 if nobody
// has used it yet.
func (m *Semaphore) Limit(ctx context.Context) (int64, error) {
	limit, err := queue.Core().Of(m.s).Limit(ctx, m.name)
	if err != nil {
		return 0, fmt.Errorf("semaphore: %w", err)
	}
	return limit, nil
}

// Queue returns the line in order: holders first, then those who wait, with their
// permits, token, host, pid, label and since when. Entries of other programs are
// in it, and count as all permits.
func (m *Semaphore) Queue(ctx context.Context) ([]session.Entry, error) {
	return queue.List(ctx, m.s, kind, m.name)
}
