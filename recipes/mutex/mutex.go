// Package mutex provides a fair, fenced mutex over one name.
//
//	m := mutex.New(s, "orders/settle")
//	err := m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
//		return settle(ctx, h.Token()) // ctx is cancelled if the lock is lost
//	})
//
// Requests are granted in the order in which the service received them. The context of
// a hold is cancelled before another client can acquire the lock.
//
// A mutex does not protect a resource that does not check the token: a stopped process
// cannot notice that time has passed.
package mutex

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and entries.
const kind = "mutex"

// Mutex is a lock with at most one holder, among all processes that use the same name
// on the same service. A Mutex is only a name and a session: it is cheap, has no state,
// and is safe for concurrent use. Two goroutines that lock the same name exclude each
// other, even through the same Session.
type Mutex struct {
	s    *session.Session
	name string
	opts Options
}

// Options are what NewWith takes. The zero value is what New uses.
type Options struct {
	// Reentrant lets Lock and TryLock return at once, with the same token, when ctx
	// belongs to a live hold of the same lock and Session. The lock is released at the
	// last Unlock. Without it such a call returns session.ErrReentrant, because it
	// would wait for itself.
	Reentrant bool

	// Robust records how holds end, so that Hold.PreviousDied reports whether the
	// previous holder crashed or lost the lock and may have left its work half done.
	// The record is one small key per name, from the grant to the release; the key of a
	// holder that has died stays until the next release. A request that only waits is not
	// recorded. Set Robust in every client of the lock: clients without it, and other
	// programs, are not recorded. It costs no round trip if the queue is empty, and one
	// after a wait; a request that waits behind a holder without it sends one more while it
	// waits. In LockAll it costs one round trip for each lock with Robust.
	Robust bool

	// LockDelay is how long Lock waits after a holder that crashed or lost the lock:
	// for resources that cannot check tokens and may still receive requests which that
	// holder sent. During the delay the request holds the lock, so other requests wait;
	// if it ends early, the next one waits for the full delay again. The Try methods wait
	// for it too. LockDelay implies Robust. 0 means no delay; a negative value is session.ErrInvalidOptions.
	LockDelay time.Duration

	// MinHold is how long the lock stays held from the grant on, even if it is unlocked
	// before: for a periodic job that several replicas try at slightly different times.
	// Unlock then ends the hold and does not wait for that, and the Session releases
	// the lock when MinHold has passed. The lock is released earlier only if the
	// session ends; Session.Close waits for it, for up to the margin. So a process that is
	// stopped, or dies, voids it: where no replica may do the same work again, use Once. With Robust, Unlock
	// first records the release, in one round trip: if the entry goes by itself, for example
	// because the process exits, PreviousDied does not report that. 0 means no
	// minimum; a negative value is session.ErrInvalidOptions.
	MinHold time.Duration

	// OnceFor is how long Once remembers a key at least, by the clocks of the processes. It
	// remembers the last 1000 keys in any case, if they fit into the 256 KiB of one record.
	// If keys that are younger than OnceFor fill the record, Once returns an error before it
	// calls its function. If no key of a fixed set may run again, set OnceFor to as long as
	// that matters. Each run writes the whole record, so for a job that runs every second
	// some minutes are enough. All callers of a lock give the same value. 0 means 15 minutes;
	// a negative value is session.ErrInvalidOptions.
	OnceFor time.Duration
}

// New returns the lock of that name. It sends nothing and cannot fail; the first call
// returns the error for a bad name or session.
func New(s *session.Session, name string) *Mutex { return NewWith(s, name, Options{}) }

// NewWith is New with options.
func NewWith(s *session.Session, name string, o Options) *Mutex {
	return &Mutex{s: s, name: name, opts: o}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.name }

// Lock blocks until it holds the lock, and returns a hold. Requests are granted in the
// order in which the service received them.
//
// ctx bounds only the wait: the hold outlives it, until Unlock or a loss. If ctx ends
// first, Lock leaves the queue and returns an error that is both session.ErrNotAcquired
// and ctx's own. It does so within milliseconds even if no server answers; the session
// then repeats the deletion in the background until the entry is certainly gone.
//
// If the session is lost while Lock waits, Lock joins the queue again at its end. It
// returns session.ErrReentrant if ctx belongs to a live hold of this lock, and
// session.ErrInvalidName, ErrClosed, ErrDenied, ErrRefused or ErrForeignKey where
// waiting cannot help.
func (m *Mutex) Lock(ctx context.Context) (*session.Hold, error) {
	return m.acquire(ctx, "lock", false)
}

// TryLock is Lock without waiting: if the queue is not empty, it returns an error that
// is session.ErrNotAcquired and names the holder. It has written nothing at the service
// then. TryLock takes one round trip on etcd, and two on ZooKeeper, where it reads the
// queue before it writes.
//
// If the service does not answer, TryLock returns session.ErrUnavailable after at most
// 5 s, whatever ctx allows. If ctx ends first, the error is session.ErrUnavailable and ctx's
// own, with the cause of ctx only in its text; if ctx ends during LockDelay, it is
// session.ErrNotAcquired and ctx's own. The session removes in the background what a lost
// request may have left.
func (m *Mutex) TryLock(ctx context.Context) (*session.Hold, error) {
	return m.acquire(ctx, "try lock", true)
}

// acquire is Lock and TryLock.
func (m *Mutex) acquire(ctx context.Context, op string, try bool) (*session.Hold, error) {
	r := m.request(try)
	r.Reenter = m.opts.Reentrant
	h, err := session.Engine(door.Key{}).Acquire(ctx, m.s, r)
	if err != nil {
		return nil, fmt.Errorf("mutex: %s %q: %w", op, m.name, err)
	}
	return h, nil
}

// request returns the request to the engine.
func (m *Mutex) request(try bool) engine.Request {
	r := engine.Request{
		Name: m.name, Kind: kind, Mode: driver.Exclusive, Rule: rule.Mutex(), Try: try,
		Ledger: m.opts.Robust || m.opts.LockDelay > 0, Delay: m.opts.LockDelay, MinHold: m.opts.MinHold,
	}
	switch {
	case m.opts.LockDelay < 0:
		r.Err = fmt.Errorf("%w: LockDelay %s is negative", session.ErrInvalidOptions, m.opts.LockDelay)
	case m.opts.MinHold < 0:
		r.Err = fmt.Errorf("%w: MinHold %s is negative", session.ErrInvalidOptions, m.opts.MinHold)
	case m.opts.OnceFor < 0:
		r.Err = fmt.Errorf("%w: OnceFor %s is negative", session.ErrInvalidOptions, m.opts.OnceFor)
	}
	return r
}

// Do acquires the lock, calls fn and releases the lock. fn's context is cancelled when
// ctx is, and when the lock is lost. Do releases the lock only after fn has returned,
// since the work may still be running until then, and also if fn panics.
//
// Do returns fn's error, or the reason why fn was not called. If the lock was lost
// meanwhile, the result is also session.ErrLost, even if fn returned nil: another
// client may have worked at the same time, and only a resource that checks the token
// notices that. Do does not return session.ErrReleasePending: the work is done, and the
// session finishes the release.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, m.Lock, fn)
}

// TryDo is Do with TryLock instead of Lock: if the lock is held, or a request waits for
// it, TryDo returns an error that is session.ErrNotAcquired and does not call fn.
func (m *Mutex) TryDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return recipe.Do(ctx, m.TryLock, fn)
}

// Queue returns the queue in order, the holder first, other programs' entries included.
func (m *Mutex) Queue(ctx context.Context) ([]session.Entry, error) {
	return recipe.List(ctx, m.s, kind, m.name)
}
