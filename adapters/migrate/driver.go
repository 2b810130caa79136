package fairmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Options are what NewDriver takes. nil means the zero value.
type Options struct {
	// LockTimeout is Migrate.LockTimeout, and has to be the same. 0 means
	// migrate.DefaultLockTimeout. When it has passed, Migrate returns and leaves a call of Lock
	// behind. So Lock gives up a tenth of it before, or a second if that is less.
	LockTimeout time.Duration

	// DriverLock makes Lock also take the driver's own lock, after the other, and Unlock release
	// it. Set it where that lock lives as long as the connection of the migration, as in
	// PostgreSQL and MySQL: the statement of a dead or stopped process keeps others out, also
	// when the lock at the service is lost. Leave it out where the driver's lock is a row or a
	// document that stays when a process dies, or where a pooler such as PgBouncer shares
	// connections between programs.
	DriverLock bool
}

// Driver is a database.Driver that calls another one while it holds a lock. Its methods are for one
// Migrate.
//
// Migrate marks the database as dirty before each migration, and as clean after it. Between two
// migrations, Driver returns an error instead if the lock is lost or the context of NewDriver
// has ended: session.ErrLost, or the cause of that context. The end of the context lets a migration
// that has begun come to its end. So does a loss with Options.DriverLock. Without that, a loss
// leaves the database dirty: others may have worked on it since.
type Driver struct {
	ctx   context.Context // golang-migrate has none to give
	inner database.Driver
	m     *mutex.Mutex
	opts  Options

	mu     sync.Mutex
	stop   context.CancelFunc // ends the wait of Lock; not nil while Lock is under way
	h      *session.Hold      // from the end of Lock to Unlock, also after a loss
	begun  bool               // the database is marked as dirty by a migration since Lock
	closed bool
}

var _ database.Driver = (*Driver)(nil)

// NewDriver returns a Driver around inner. ctx bounds the wait for the lock, and its end stops
// between two migrations. All programs that migrate one database use one name for m.
func NewDriver(ctx context.Context, inner database.Driver, m *mutex.Mutex, o *Options) *Driver {
	d := &Driver{ctx: ctx, inner: inner, m: m}
	if o != nil {
		d.opts = *o
	}
	return d
}

// Open opens another database by the inner driver, as database.Open does, under the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.inner.Open(url)
	if err != nil {
		return nil, err
	}
	return NewDriver(d.ctx, inner, d.m, &d.opts), nil
}

// Lock blocks until the lock is acquired, in the order of the requests. The error is
// migrate.ErrLockTimeout after the timeout, also with the error of mutex.Lock, which names the
// holder; and database.ErrLocked if this Driver is locked already.
func (d *Driver) Lock() error {
	ctx, cancel, ok := d.enter()
	if !ok {
		return fmt.Errorf("fairmigrate: lock %q: by this driver already: %w", d.m.Name(), database.ErrLocked)
	}
	h, err := d.m.Lock(ctx)
	if err == nil && d.opts.DriverLock {
		err = d.lockInner(ctx, h)
		if err != nil {
			err = errors.Join(err, release(h)) //nolint:contextcheck // Unlock takes none
		}
	}
	if err != nil {
		h = nil
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && d.ctx.Err() == nil {
			err = fmt.Errorf("fairmigrate: %w: %w", migrate.ErrLockTimeout, err)
		}
	}
	cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = nil
	if d.closed && h != nil {
		return errors.Join(session.ErrClosed, release(h)) //nolint:contextcheck // Unlock takes none
	}
	d.h, d.begun = h, false
	return err
}

// enter begins a call of Lock, unless there is one, or the lock is held.
func (d *Driver) enter() (context.Context, context.CancelFunc, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil || d.h != nil {
		return nil, nil, false
	}
	timeout := d.opts.LockTimeout
	if timeout == 0 {
		timeout = migrate.DefaultLockTimeout
	}
	ctx, cancel := context.WithTimeout(d.ctx, timeout-min(time.Second, timeout/10))
	d.stop = cancel
	return ctx, cancel, true
}

// lockInner takes the lock of the inner driver, which has no context. If the wait ends before,
// the lock is released as soon as the driver has it.
func (d *Driver) lockInner(ctx context.Context, h *session.Hold) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })() //nolint:contextcheck // the loss of the lock ends ctx
	locked := make(chan error, 1)
	go func() { locked <- d.inner.Lock() }()
	select {
	case err := <-locked:
		return err
	case <-ctx.Done():
		go func() {
			if <-locked == nil {
				_ = d.inner.Unlock() // if it fails, the end of the connection releases the lock
			}
		}()
		return fmt.Errorf("fairmigrate: the lock of the driver: %w", context.Cause(ctx))
	}
}

// Unlock releases the lock. It returns session.ErrLost if the lock had been lost, and
// database.ErrNotLocked if it is not locked. After any error Migrate takes itself for locked, so
// a program that goes on needs another one.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	h := d.h
	d.h = nil
	d.mu.Unlock()
	if h == nil {
		return fmt.Errorf("fairmigrate: unlock %q: %w", d.m.Name(), database.ErrNotLocked)
	}
	var err error
	if d.opts.DriverLock {
		err = d.inner.Unlock()
	}
	return errors.Join(err, release(h))
}

// release unlocks h. A release that is pending is finished by the session.
func release(h *session.Hold) error {
	err := h.Unlock()
	if errors.Is(err, session.ErrReleasePending) {
		return nil
	}
	return err
}

// Close ends a wait of Lock, releases the lock if it is held, and closes the inner driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	h := d.h
	d.h, d.closed = nil, true
	if d.stop != nil {
		d.stop()
	}
	d.mu.Unlock()
	err := d.inner.Close() // which also ends its own lock
	if h != nil {
		err = errors.Join(err, release(h))
	}
	return err
}

// Run applies a migration, which Migrate has announced by SetVersion. golang-migrate has no way to
// stop it: where the inner driver has a timeout for statements, that is the only bound.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.check(false); err != nil {
		return err
	}
	return d.inner.Run(migration)
}

// SetVersion records a version. Migrate calls it before and after each migration.
func (d *Driver) SetVersion(version int, dirty bool) error {
	d.mu.Lock()
	ends := d.begun && !dirty
	d.mu.Unlock()
	if err := d.check(!ends); err != nil {
		return err
	}
	if err := d.inner.SetVersion(version, dirty); err != nil {
		return err
	}
	d.mu.Lock()
	d.begun = dirty
	d.mu.Unlock()
	return nil
}

// Version returns the version of the database, also without the lock.
func (d *Driver) Version() (version int, dirty bool, err error) { return d.inner.Version() }

// Drop deletes everything in the database.
func (d *Driver) Drop() error {
	if err := d.check(true); err != nil {
		return err
	}
	return d.inner.Drop()
}

// check returns why a step must not be done, which begins something new or not. Without a hold
// it was not Migrate that called. The clock is read, so it is right also after the process was
// stopped.
func (d *Driver) check(begins bool) error {
	d.mu.Lock()
	h := d.h
	d.mu.Unlock()
	switch {
	case h == nil:
		return nil
	case begins && d.ctx.Err() != nil:
		return fmt.Errorf("fairmigrate: stopped between two migrations: %w", context.Cause(d.ctx))
	case h.Remaining() > 0, !begins && d.opts.DriverLock:
		return nil
	}
	<-h.Context().Done() // its deadline has passed
	return fmt.Errorf("fairmigrate: stopped: %w", context.Cause(h.Context()))
}
