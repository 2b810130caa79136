package mutex

import (
	"context"
	"sync"

	"github.com/fairlock/fairlock/session"
)

// Locker is the lock as a sync.Locker, for code that knows no other. Prefer
// Lock and Do: a sync.Locker can tell neither that waiting failed nor that the
// lock was lost.
type Locker struct {
	m   *Mutex
	ctx context.Context //nolint:containedctx // sync.Locker has no place for it

	mu   sync.Mutex
	hold *session.Hold
}

var _ sync.Locker = (*Locker)(nil)

// Locker returns m as a sync.Locker. ctx bounds the waiting of its Lock.
func (m *Mutex) Locker(ctx context.Context) *Locker { return &Locker{m: m, ctx: ctx} }

// Lock waits its turn. It panics with the error of Mutex.Lock if that fails,
// because its callers go on as if they held.
func (l *Locker) Lock() {
	h, err := l.m.Lock(l.ctx)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	l.hold = h
	l.mu.Unlock()
}

// Unlock gives the lock back. It panics if nothing is held, as sync.Mutex does;
// a loss is told by Hold and by the session's hooks.
func (l *Locker) Unlock() {
	l.mu.Lock()
	h := l.hold
	l.hold = nil
	l.mu.Unlock()
	if h == nil {
		panic("mutex: unlock of unlocked Locker")
	}
	// Lost or pending, there is nothing that the caller of a sync.Locker could
	// do about it.
	_ = h.Unlock()
}

// Hold is what is held now, for its token and its context; nil if nothing is.
func (l *Locker) Hold() *session.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold
}
