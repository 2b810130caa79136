package mutex

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/fairlock/fairlock/session"
)

// Locker is the lock as a sync.Locker, for code that takes nothing else. Prefer Lock or
// Do: a sync.Locker can report neither that waiting failed nor that the lock was lost.
// Goroutines may share a Locker. One of them at a time is between Lock and Unlock, also
// after the lock was lost, so that no Unlock releases the hold of another goroutine.
type Locker struct {
	m    *Mutex
	ctx  context.Context //nolint:containedctx // sync.Locker has no place for it
	turn chan struct{}   // is full from Lock to Unlock
	hold atomic.Pointer[session.Hold]
}

var _ sync.Locker = (*Locker)(nil)

// Locker returns m as a sync.Locker. ctx bounds the wait of its Lock.
func (m *Mutex) Locker(ctx context.Context) *Locker {
	return &Locker{m: m, ctx: ctx, turn: make(chan struct{}, 1)}
}

// Lock blocks until it holds the lock. It panics with the error of Mutex.Lock if that
// fails, because its callers continue as if they held the lock.
func (l *Locker) Lock() {
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		panic(&session.NotAcquiredError{Ahead: -1, Err: l.ctx.Err()})
	}
	h, err := l.m.Lock(l.ctx)
	if err != nil {
		<-l.turn
		panic(err)
	}
	l.hold.Store(h)
}

// Unlock releases the lock. It panics if the lock is not held, as sync.Mutex does. It
// does not report a loss: the context of Hold and the session's hooks do.
func (l *Locker) Unlock() {
	h := l.hold.Swap(nil)
	if h == nil {
		panic("mutex: unlock of unlocked Locker")
	}
	_ = h.Unlock() // lost or pending: the caller of a sync.Locker cannot act on it
	<-l.turn
}

// Hold returns the current hold, for its token and its context, or nil.
func (l *Locker) Hold() *session.Hold { return l.hold.Load() }
