// Package semaphore provides a fair, weighted semaphore over one name: a number of
// permits that all processes share.
//
//	gpus := semaphore.New(s, "gpu", 8)
//	err := gpus.Do(ctx, 3, func(ctx context.Context, h *session.Hold) error {
//		return train(ctx) // with three of the eight
//	})
//
// Requests are granted in the order in which the service received them. A request gets
// all its permits at once or waits, and no later request overtakes it, however few
// permits that one needs. So large requests do not starve, and two requests for all
// permits never wait for each other. The permits of a process that dies become free
// when its session expires.
//
// A token does not fence a resource that several holders use at once, because the order
// of the holders' tokens means nothing. Assign each hold a part of the resource by its
// slot (see Options.Slots), and fence each part.
package semaphore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and entries.
const kind = "semaphore"

// MaxLimit is the highest limit of a semaphore, in permits.
const MaxLimit = 1 << 40

// Semaphore is a number of permits. A Semaphore is only a name, a session and a limit:
// it is cheap and safe for concurrent use. Each request counts for itself, even through
// the same Session.
type Semaphore struct {
	s        *session.Session
	name     string
	limit    atomic.Int64  // that of NewWith, or of the last Resize
	resizing chan struct{} // full while a Resize is under way
	opts     Options
}

// Options are what NewWith takes. The zero value is what New uses.
type Options struct {
	// Follow accepts the limit that the semaphore has at the service, whatever it is;
	// the given limit is used only if there is none yet. Without Follow, a different
	// limit is session.ErrLimitMismatch, so that two versions of a program cannot work
	// with different limits. Set it in programs whose semaphores are resized.
	Follow bool

	// Slots gives each hold a slot (Hold.Slot): a number, from 0 on, that no other live
	// hold has; usually, not always, the lowest. It is below the limit, unless the limit
	// was lowered, an operator has just deleted the entry of a hold, or the service carried
	// out a request so late that a hold has two numbers. It costs one round trip more, and
	// some further ones if another hold asks for the same number.
	//
	// The token of the hold is then that of the slot: it rises with every hold that
	// gets the slot, so a resource that is fenced by slot accepts every live hold. It
	// is not the token that Queue returns, which marks the place in the queue.
	Slots bool
}

// New returns the semaphore of that name, with that limit. It sends nothing and cannot
// fail; the first call returns the error for a bad name, limit or session.
//
// The service stores the limit from the first Acquire on, and keeps it when the
// semaphore is no longer used. Resize changes it. See Options.Follow.
func New(s *session.Session, name string, limit int64) *Semaphore {
	return NewWith(s, name, limit, Options{})
}

// NewWith is New with options.
func NewWith(s *session.Session, name string, limit int64, o Options) *Semaphore {
	m := &Semaphore{s: s, name: name, resizing: make(chan struct{}, 1), opts: o}
	m.limit.Store(limit)
	return m
}

// Name returns the name of the semaphore.
func (m *Semaphore) Name() string { return m.name }

// Acquire blocks until it holds n permits, and returns a hold. ctx bounds only the
// wait, and ends it as in mutex.Lock.
//
// Acquire returns session.ErrWeight if n is below 1 or above the limit, also when the
// limit is lowered below n during the wait. It returns session.ErrLimitMismatch if the
// semaphore has a different limit at the service; session.ErrReentrant if ctx belongs
// to a live hold of this semaphore, because the request could wait for itself. If the
// limit is deleted at the service during the wait, the request joins again at the end of
// the queue, with its own limit.
func (m *Semaphore) Acquire(ctx context.Context, n int64) (*session.Hold, error) {
	return m.acquire(ctx, "acquire", n, false)
}

// TryAcquire is Acquire without waiting: if there are not enough free permits, or a
// request waits, it returns an error that is session.ErrNotAcquired and names the first
// entry. It has written nothing at the service then, unless other requests joined at
// the same moment. If the service does not answer, it returns session.ErrUnavailable
// after at most 5 s, or, with ctx's own error, when ctx ends.
func (m *Semaphore) TryAcquire(ctx context.Context, n int64) (*session.Hold, error) {
	return m.acquire(ctx, "try to acquire", n, true)
}

// acquire is Acquire and TryAcquire.
func (m *Semaphore) acquire(ctx context.Context, op string, n int64, try bool) (*session.Hold, error) {
	limit := m.limit.Load()
	h, err := session.Engine(door.Key{}).Acquire(ctx, m.s, engine.Request{
		Name: m.name, Kind: kind, Mode: driver.Weighted, Weight: n, Rule: rule.Semaphore(), Try: try,
		Limit: limit, Follow: m.opts.Follow, Slots: m.opts.Slots, Err: m.check(limit, n),
	})
	if err != nil {
		return nil, fmt.Errorf("semaphore: %s %d of %q: %w", op, n, m.name, err)
	}
	return h, nil
}

// check returns what is wrong with a request, as far as the caller's limit shows.
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

// checkLimit returns what is wrong with a limit, or nil.
func checkLimit(limit int64) error {
	if limit < 1 || limit > MaxLimit {
		return fmt.Errorf("%w: a limit of %d: it must be at least 1 and at most %d", session.ErrInvalidOptions, limit, int64(MaxLimit))
	}
	return nil
}

// Do acquires n permits, calls fn and releases them, as mutex.Do does.
func (m *Semaphore) Do(ctx context.Context, n int64, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, func(ctx context.Context) (*session.Hold, error) { return m.Acquire(ctx, n) }, fn)
}

// TryDo is Do with TryAcquire instead of Acquire: if there are not enough free permits,
// or a request waits, TryDo returns an error that is session.ErrNotAcquired and does
// not call fn.
func (m *Semaphore) TryDo(ctx context.Context, n int64, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, func(ctx context.Context) (*session.Hold, error) { return m.TryAcquire(ctx, n) }, fn)
}

// Resize changes the limit at the service and of this Semaphore. Other Semaphores use
// the new limit if they follow (see Options.Follow). When the limit rises, the requests
// that fit within it are granted at once. When it falls, holders keep their permits, and
// the next request is granted when enough permits are released. A waiter that needs more
// permits than the new limit gets session.ErrWeight. A request that fitted before can
// still be granted, until the server from which its client reads knows the new limit.
//
// Resize returns session.ErrDenied if the caller may not write at the service. After an
// error that is neither that nor session.ErrRefused the outcome is unknown; call Resize
// again. Calls at the same time are made one after the other.
func (m *Semaphore) Resize(ctx context.Context, limit int64) error {
	if err := m.resize(ctx, limit); err != nil {
		return fmt.Errorf("semaphore: resize %q to %d: %w", m.name, limit, err)
	}
	return nil
}

// resize is Resize. Two at once take turns, so that the last limit at the service is also the
// last of this Semaphore.
func (m *Semaphore) resize(ctx context.Context, limit int64) error {
	if err := checkLimit(limit); err != nil {
		return err
	}
	e := session.Engine(door.Key{}).Of(m.s)
	if err := e.CheckName(m.name); err != nil { // a zero Semaphore has no channel
		return err //nolint:wrapcheck // Resize does
	}
	ctx, cancel := e.Bounded(ctx)
	defer cancel()
	select {
	case m.resizing <- struct{}{}:
		defer func() { <-m.resizing }()
	case <-ctx.Done():
		return driver.ContextError(ctx) //nolint:wrapcheck // Resize does
	}
	if err := e.SetLimit(ctx, m.name, limit); err != nil {
		return err //nolint:wrapcheck // Resize does
	}
	m.limit.Store(limit)
	return nil
}

// Limit returns the limit that the service stores, and 0 if the semaphore was never
// used.
func (m *Semaphore) Limit(ctx context.Context) (int64, error) {
	limit, err := session.Engine(door.Key{}).Of(m.s).Limit(ctx, m.name)
	if err != nil {
		return 0, fmt.Errorf("semaphore: limit of %q: %w", m.name, err)
	}
	return limit, nil
}

// Queue returns the queue in order, holders first. It includes entries of other
// programs, each of which counts as all permits.
func (m *Semaphore) Queue(ctx context.Context) ([]session.Entry, error) {
	return recipe.List(ctx, m.s, kind, m.name)
}
