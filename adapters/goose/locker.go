package fairgoose

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3/lock"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Locker is a lock.Locker and a lock.SessionLocker of goose. Both make a Provider hold the lock
// while it reads what is pending and applies it; they differ only in the name of the option:
//
//	locker := fairgoose.NewLocker(mutex.New(s, "goose/orders"))
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker))
//
// goose takes the lock in Up, Down and their like, if something is pending, and after it has
// taken a connection of the database, which it keeps while it waits. It creates its table of
// versions before that, without the lock. The lock does not reach into the database: a
// statement that a dead process has sent runs on in the server, and may end after the next process
// has the lock.
//
// A Locker may serve several Providers. In one process they take turns.
type Locker struct {
	named *mutex.Named
	lock  string
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// NewLocker returns a Locker that takes m. All programs that migrate one database use one name.
func NewLocker(m *mutex.Mutex) *Locker {
	return &Locker{named: mutex.NewNamed(func(string) *mutex.Mutex { return m }), lock: m.Name()}
}

// ends is the key of the function that ends a context of Locker.Context.
type ends struct{ l *Locker }

// Context returns a context for calls of a Provider with this Locker, one after the other. It
// ends with ctx, when cancel is called, and when the lock is lost that such a call has taken.
// goose uses it for all statements of the call and gives it to migrations in Go:
//
//	ctx, cancel := locker.Context(ctx)
//	defer cancel()
//	_, err := provider.Up(ctx)
//
// With another context, goose goes on with all migrations after a loss, and the error of the call
// is session.ErrLost when it is too late.
func (l *Locker) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	return context.WithValue(ctx, ends{l}, end), func() { end(nil) }
}

// Lock blocks until the lock is acquired, in the order of the requests, as mutex.Lock does. There
// is no other limit than ctx, which is that of the call. goose calls Lock.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	if err := l.named.Lock(ctx, l.lock); err != nil {
		return err
	}
	h, held := l.named.Hold(l.lock)
	end, ok := ctx.Value(ends{l}).(context.CancelCauseFunc)
	if held && ok {
		context.AfterFunc(h.Context(), func() { //nolint:contextcheck // the loss of the lock ends ctx
			cause := context.Cause(h.Context())
			if errors.Is(cause, session.ErrLost) { // and not released
				end(cause)
			}
		})
	}
	return nil
}

// Unlock releases the lock. It returns session.ErrLost if the lock had been lost, which is then
// part of the error of the call. goose calls Unlock, also after errors and panics.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.named.Unlock(ctx, l.lock) }

// SessionLock is Lock. It does not use the connection.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.Lock(ctx, nil) }

// SessionUnlock is Unlock.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.Unlock(ctx, nil) }

// Hold returns the hold while a call of a Provider has the lock, also after a loss. A migration in
// Go gets its token from it.
func (l *Locker) Hold() (h *session.Hold, ok bool) { return l.named.Hold(l.lock) }
