package mutex

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlock/fairlock/session"
)

// Named is a locker for a host that locks and unlocks by name, and has no place for a hold:
//
//	Lock(ctx context.Context, name string) error
//	Unlock(ctx context.Context, name string) error
//
// Schedulers, stores of certificates and servers of uploads have such interfaces. They cannot
// stop the work at a loss, and the work has no token. Where the work can lock for itself, use
// Mutex.Do there instead.
//
// Within one Named each name has one holder, from Lock to Unlock, also after its lock was
// lost. A further Lock of the name waits for that Unlock, and only then joins the queue. So an
// Unlock always ends the hold of its own Lock: a caller that notices a loss late cannot release
// the hold of the next one, and the two do not work at the same time in this process. The
// callers of one name take turns in the order of their calls. At most one of them has an entry
// in the queue, so other processes go in between, and hooks and tools do not show a caller
// that waits for another caller of its process.
//
// Each Lock or TryLock that has returned nil needs exactly one Unlock, whatever that returns.
// A caller that omits it keeps the name locked in this process, as with a sync.Mutex. Nothing
// is kept of a name that no caller uses. A Named is safe for concurrent use.
type Named struct {
	lock func(name string) *Mutex

	mu    sync.Mutex
	names map[string]*turn // exactly those whose turn has users
}

// turn is what the callers of one name share.
type turn struct {
	// busy is full while one caller locks the name, or has locked it. Go's channels serve
	// blocked senders in the order in which they came.
	busy chan struct{}

	users int           // how many callers wait, lock, or hold; Named.mu guards it
	hold  *session.Hold // from the grant to Unlock, also after a loss; Named.mu guards it
	ended error         // what Unlock of hold has returned, if Relock has called it; Named.mu guards it
}

// NewNamed returns a Named that takes, for each name of the host, the Mutex that lock returns.
// lock chooses session and options, sets the host's names apart from those of other users of
// the service, and replaces names that the service refuses:
//
//	mutex.NewNamed(func(name string) *mutex.Mutex { return mutex.New(s, "certs/"+name) })
//
// Named calls lock in each Lock and TryLock. Options.Reentrant has no effect: by name alone, a
// caller cannot be recognized.
func NewNamed(lock func(name string) *Mutex) *Named {
	return &Named{lock: lock, names: map[string]*turn{}}
}

// Lock blocks until the caller holds the lock of that name. It waits first for the callers of
// the name in this process, and then as Mutex.Lock, whose errors it returns. ctx bounds the
// wait. If ctx comes from the hold that the caller would wait for, see Hold, Lock returns
// session.ErrReentrant.
func (n *Named) Lock(ctx context.Context, name string) error { return n.acquire(ctx, name, false) }

// TryLock is Lock without waiting, as Mutex.TryLock. It returns session.ErrNotAcquired, and
// sends nothing, if a caller in this process has locked the name or is locking it.
func (n *Named) TryLock(ctx context.Context, name string) error { return n.acquire(ctx, name, true) }

// acquire is Lock and TryLock.
func (n *Named) acquire(ctx context.Context, name string, try bool) error {
	m := n.mutex(name)
	lock := m.Lock
	if try {
		lock = m.TryLock
	}
	t := n.join(name)
	var h *session.Hold
	entered := false
	defer func() { // also after a panic of a hook
		if h == nil {
			n.leave(name, t, entered)
		}
	}()
	select {
	case t.busy <- struct{}{}:
		entered = true
	default:
		if try {
			return fmt.Errorf("mutex: try lock %q: by this process already: %w", m.name, &session.NotAcquiredError{Ahead: -1})
		}
		if n.inside(ctx, m.name, t) {
			return fmt.Errorf("mutex: lock %q: %w", m.name, session.ErrReentrant)
		}
		select {
		case t.busy <- struct{}{}:
			entered = true
		case <-ctx.Done(): // Lock returns the error of that, and the hooks get it
		}
	}
	held, err := lock(ctx)
	if err != nil {
		return err
	}
	h = held
	n.mu.Lock()
	t.hold = h
	n.mu.Unlock()
	return nil
}

// mutex returns the lock of a name.
func (n *Named) mutex(name string) *Mutex {
	m := *n.lock(name)
	m.opts.Reentrant = false
	return &m
}

// inside reports whether ctx comes from the hold of the turn, which Unlock has not ended.
func (n *Named) inside(ctx context.Context, lock string, t *turn) bool {
	h, ok := session.HoldOf(ctx, lock)
	n.mu.Lock()
	defer n.mu.Unlock()
	return ok && t.hold != nil && h.Token() == t.hold.Token() && h.SessionID() == t.hold.SessionID()
}

// Hold returns the hold of a name from the return of Lock or TryLock to the begin of Unlock,
// also if the lock was lost. The caller in between gets its own hold: the context of it ends at
// a loss, and the resource checks its token. Others get the hold of another caller, which may
// end at any time. Leave the release to Unlock of the Named.
func (n *Named) Hold(name string) (h *session.Hold, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.locked(name)
	if t == nil {
		return nil, false
	}
	return t.hold, true
}

// locked returns the turn of a name that is locked, nil if it is not. The mutex is held.
func (n *Named) locked(name string) *turn {
	t := n.names[name]
	if t == nil || t.hold == nil {
		return nil
	}
	return t
}

// Relock acquires the lock of a name anew after a loss, for the caller that has locked it and
// begins its work again. It returns nil at once if the lock is not lost. Otherwise it waits as
// Mutex.Lock, and returns its errors. Meanwhile other processes may hold the lock, but no other
// caller of this process. Hold returns the new hold from then on.
//
// Whatever Relock returns, Unlock must still follow. After an error it returns the loss. If
// Unlock is called during Relock, Relock returns session.ErrUnlocked, and holds nothing.
func (n *Named) Relock(ctx context.Context, name string) error {
	n.mu.Lock()
	t := n.locked(name)
	if t == nil {
		n.mu.Unlock()
		return fmt.Errorf("mutex: relock %q: %w", name, session.ErrUnlocked)
	}
	lost := t.hold
	if lost.Remaining() > 0 {
		n.mu.Unlock()
		return nil
	}
	n.mu.Unlock()
	ended := lost.Unlock() // or the entries that are left of it would be ahead
	n.mu.Lock()
	if t.hold == lost && t.ended == nil {
		t.ended = ended
	}
	n.mu.Unlock()
	h, err := n.mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	if t.hold == lost {
		t.hold, t.ended = h, nil
		n.mu.Unlock()
		return nil
	}
	n.mu.Unlock()
	_ = h.Unlock() // Unlock of the caller has returned
	return fmt.Errorf("mutex: relock %q: %w", name, session.ErrUnlocked)
}

// Unlock releases the lock of that name, and lets the next caller of this process go on. It
// does not use ctx, which has often ended by then: it waits for at most one second, as
// Hold.Unlock. Any goroutine may call it.
//
// Unlock returns session.ErrLost if the lock had been lost: another process may have worked at
// the same time. Nothing is left to release then. It returns session.ErrUnlocked if the name is
// not locked. It returns nil where Hold.Unlock returns ErrReleasePending: the session finishes
// the release. After any result the name is unlocked, so a host must not repeat Unlock: it
// would release the lock of the next caller.
func (n *Named) Unlock(_ context.Context, name string) error {
	n.mu.Lock()
	t := n.locked(name)
	if t == nil {
		n.mu.Unlock()
		return fmt.Errorf("mutex: unlock %q: %w", name, session.ErrUnlocked)
	}
	h, err := t.hold, t.ended
	t.hold, t.ended = nil, nil
	n.mu.Unlock()
	defer n.leave(name, t, true)
	if err == nil {
		err = h.Unlock()
	}
	if errors.Is(err, session.ErrReleasePending) {
		return nil
	}
	return err
}

// join returns the turn of a name. leave must follow.
func (n *Named) join(name string) *turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.names[name]
	if t == nil {
		t = &turn{busy: make(chan struct{}, 1)}
		n.names[name] = t
	}
	t.users++
	return t
}

// leave is called when a caller has nothing more to do with a turn. If it had filled t.busy, the
// next one goes on.
func (n *Named) leave(name string, t *turn, entered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if entered {
		<-t.busy
	}
	t.users--
	if t.users == 0 {
		delete(n.names, name)
	}
}
