package mutex

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/once"
	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Once is Do for work that is to be done once for each key, by whichever caller comes
// first, in any process: a key is, for example, the time for which a periodic job is due. If
// a run with this key has succeeded under this lock, Once returns nil without calling fn.
// Callers wait for each other, so when Once returns nil, the work of the key is done.
// `fairlock run --once` keeps the same record.
//
// Do not use Once for what another store knows better, such as which migrations a database
// has: after a restore of the database, or with a second database, the lock service still
// reports that the work is done. Use Do there, and ask the database in fn.
//
// A run has succeeded when fn has returned nil and the service has recorded the key,
// which it does only while the lock is held. After an error or a panic of fn, or when
// the lock is lost, nothing is recorded, and the next caller runs fn again. A process
// that ends between fn and the record leaves none either: the work is done at least once,
// and a resource can find the later run by the tokens. If the record fails after fn has
// succeeded, Once returns the error of the record.
//
// The end of ctx does not undo what is done: if fn has returned nil, Once still records the
// key, for at most a second after ctx has ended, and then releases the lock, as Unlock does.
// So Once returns at most 2 s after the end of ctx and of fn, whichever is later.
//
// The service remembers a key for at least Options.OnceFor, and longer while at most 1000 keys
// have followed. A caller with an older key, because it was stopped for so long, runs fn again.
// If there is no room for another key, Once returns session.ErrRefused and does not call fn.
// Keys are compared for equality only, and an operator can delete them.
//
// A key is 1 to 256 bytes of UTF-8, or the error is session.ErrInvalidOptions. With a
// ctx that comes from a live hold of this lock it is session.ErrReentrant, also with
// Options.Reentrant. All else is as of Do. Once takes one request more than Do if the
// run has been made, and three more if it makes the run; on ZooKeeper two and five.
func (m *Mutex) Once(ctx context.Context, key string, fn func(ctx context.Context, h *session.Hold) error) error {
	if err := once.CheckKey(key); err != nil {
		return fmt.Errorf("mutex: once %q: %w", m.name, err)
	}
	plain := *m
	plain.opts.Reentrant = false
	keepFor := cmp.Or(m.opts.OnceFor, once.DefaultFor)
	return recipe.Do(ctx, plain.Lock, func(inner context.Context, h *session.Hold) error {
		_, done, err := once.Find(inner, m.s, m.name, key, keepFor)
		if err != nil {
			return fmt.Errorf("mutex: once %q: %w", m.name, err)
		}
		if done {
			return nil
		}
		err = fn(inner, h)
		if err != nil {
			return err
		}
		recording, cancel := m.outlasting(ctx, h)
		defer cancel()
		err = once.Add(recording, m.s, h, key, keepFor)
		if err != nil { //nolint:contextcheck // the hold's
			return fmt.Errorf("mutex: once %q: %q is done, but that could not be recorded: %w", m.name, key, err)
		}
		return nil
	})
}

// grace is how long a record may take after its caller's ctx has ended: as long as Unlock waits.
const grace = time.Second

// outlasting returns a context that ends with the hold, or when grace has passed since the end of
// ctx.
//
//nolint:contextcheck // the hold's
func (m *Mutex) outlasting(ctx context.Context, h *session.Hold) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(h.Context())
	stop := context.AfterFunc(ctx, func() {
		driver.Sleep(inner, session.Engine(door.Key{}).Of(m.s).Clock(), grace)
		cancel()
	})
	return inner, func() { stop(); cancel() }
}
