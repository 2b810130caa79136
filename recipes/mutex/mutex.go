// Package mutex is a fair, fenced mutual exclusion over one name.
//
//	m := mutex.New(s, "orders/settle")
//	err := m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
//		return settle(ctx, h.Token()) // ctx ends when the lock is lost
//	})
//
// Requests are granted in the order in which the service received them. The
// context of a hold ends before anybody else can hold. What it does not do is
// protect a resource that does not check the token: a stopped process cannot
// notice that time has passed.
package mutex

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and in the line.
const kind = "mutex"

// Mutex is a lock that one holds at a time, over all processes that use the
// same name on the same service. It is a name and a session, nothing more:
// cheap, stateless, and safe for concurrent use. Two goroutines that lock the
// same name exclude each other, also through the same Session.
type Mutex struct {
	s    *session.Session
	name string
	opts Options
}

// Options are what NewWith takes. The zero value is what New uses.
type Options struct {
	// Reentrant lets Lock and TryLock succeed at once when their context comes
	// from a live hold of the same lock and Session, with the same token. The
	// lock is given back at the last Unlock. Without it such a call returns
	// session.ErrReentrant, because it would wait for itself.
	Reentrant bool

	// Robust keeps account of how holds end, so that Hold.PreviousDied can tell
	// a new holder that the one before did not give back and may have left its
	// work half done. The account is one small key for each name, which stays at
	// the service. All who use the lock must set this alike; who does not, and
	// foreign programs, leave no trace in the account. It costs no round trip
	// when nobody is ahead and the last holder gave back, and one otherwise.
	Robust bool

	// LockDelay is how long a new holder waits, as part of Lock, if the one
	// before did not give back: for resources that cannot check a token, and may
	// still be getting what a holder sent that is gone. 0 means not at all;
	// otherwise it implies Robust, and a negative one is session.ErrInvalidOptions.
	// The lock is held meanwhile: others wait, and if the holder is lost or gives
	// up in that time, the next one waits as long again.
	LockDelay time.Duration

	// MinHold is for how long the lock stays taken, from the grant on, even if it is
	// unlocked before: for a periodic job that several replicas try at slightly
	// different times. Unlock then ends the hold and returns nil at once, and the
	// Session releases the lock when the time has passed. The lock is released earlier
	// only if the session ends; Session.Close waits for up to the margin. 0 means not
	// at all, and a negative one is session.ErrInvalidOptions.
	MinHold time.Duration
}

// New returns the lock of that name. It sends nothing and cannot fail; a bad
// name or session is told by the first call.
func New(s *session.Session, name string) *Mutex { return NewWith(s, name, Options{}) }

// NewWith is New with options.
func NewWith(s *session.Session, name string, o Options) *Mutex {
	return &Mutex{s: s, name: name, opts: o}
}

// Name is the name of the lock.
func (m *Mutex) Name() string { return m.name }

// Lock waits its turn and returns a hold. Requests are granted in the order in
// which the service received them. ctx bounds the waiting only: the hold goes
// on after its end, until Unlock or until it is lost. If ctx ends first, Lock
// leaves the line and returns an error that is session.ErrNotAcquired and ctx's
// own, within milliseconds even if no server answers; what it leaves at the
// service is removed in the background until that is certain.
//
// If the session is lost while waiting, Lock joins the line again at its end.
// It returns session.ErrReentrant if ctx comes from a live hold of this lock,
// and session.ErrInvalidName, ErrClosed, ErrDenied, ErrRefused or ErrForeignKey
// where waiting cannot help.
func (m *Mutex) Lock(ctx context.Context) (*session.Hold, error) {
	return m.acquire(ctx, "lock", false)
}

// TryLock is Lock for those who will not wait: it returns an error that is
// session.ErrNotAcquired if anybody holds or waits, and names who. Then it has
// written nothing at the service. It takes one round trip on etcd, two on
// ZooKeeper, which must be asked who is there before anything is written.
//
// If the service does not answer, TryLock returns session.ErrUnavailable after at
// most 5 s, whatever ctx allows. What it may have left is removed in the background.
func (m *Mutex) TryLock(ctx context.Context) (*session.Hold, error) {
	return m.acquire(ctx, "try lock", true)
}

// acquire is Lock and TryLock.
func (m *Mutex) acquire(ctx context.Context, op string, try bool) (*session.Hold, error) {
	r := m.request(try)
	var h *session.Hold
	var err error
	if r.Err == nil {
		h, r.Err = m.enter(ctx)
	}
	if h == nil {
		h, err = queue.Acquire(ctx, m.s, r)
	}
	if err != nil {
		return nil, fmt.Errorf("mutex: %s %q: %w", op, m.name, err)
	}
	return h, nil
}

// request is what the engine is asked for.
func (m *Mutex) request(try bool) queue.Request {
	r := queue.Request{
		Name: m.name, Kind: kind, Mode: driver.Exclusive, Rule: queue.Mutex(), Try: try,
		Ledger: m.opts.Robust || m.opts.LockDelay > 0, Delay: m.opts.LockDelay, MinHold: m.opts.MinHold,
	}
	switch {
	case m.opts.LockDelay < 0:
		r.Err = fmt.Errorf("%w: LockDelay %s is negative", session.ErrInvalidOptions, m.opts.LockDelay)
	case m.opts.MinHold < 0:
		r.Err = fmt.Errorf("%w: MinHold %s is negative", session.ErrInvalidOptions, m.opts.MinHold)
	}
	return r
}

// enter looks whether the caller is inside already. It returns neither hold nor
// error if not.
func (m *Mutex) enter(ctx context.Context) (*session.Hold, error) {
	h := queue.Core().Inside(ctx, m.s, m.name)
	if h == nil {
		return nil, nil //nolint:nilnil // "not inside" is neither
	}
	if !m.opts.Reentrant || h.Kind() != kind { // a reader of this name excludes nobody
		return nil, session.ErrReentrant
	}
	h, err := queue.Core().Inner(h).Reenter(ctx, driver.Exclusive)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // it ended in this instant: not inside any more
	}
	return h, nil
}

// Do holds the lock while fn runs. fn's context ends when ctx ends, and when
// the lock is lost. Do waits for fn to return before it gives back, whatever
// ended, for the work may still be running; it gives back also if fn panics.
//
// It returns fn's error, or the reason why fn was not called. If the lock was
// lost meanwhile, the result is also session.ErrLost, even if fn returned nil:
// somebody else may have worked at the same time, which only a resource that
// checks the token has noticed. session.ErrReleasePending is not reported: the
// work is done, and the entry goes by itself.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, m.Lock, fn)
}

// TryDo is Do with TryLock instead of Lock: if the lock is taken, fn is not called,
// and the error is session.ErrNotAcquired.
func (m *Mutex) TryDo(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	return queue.Do(ctx, m.TryLock, fn)
}

// Queue returns the line in order: the holder first, then those who wait, with
// token, host, pid, label and since when. Entries of other programs are in it.
func (m *Mutex) Queue(ctx context.Context) ([]session.Entry, error) {
	return queue.List(ctx, m.s, kind, m.name)
}
