package mutex

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/internal/once"
	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
)

// Once is Do for work that is to be done once for each key, by whichever caller comes
// first, in any process: a key is the time for which a periodic job is, or the name of
// a migration. If a run with this key has succeeded under this lock, Once returns nil
// without calling fn. Callers wait for each other, so when Once returns nil, the work
// of the key is done. `fairlock run --once` keeps the same record.
//
// A run has succeeded when fn has returned nil and the service has recorded the key,
// which it does only while the lock is held. After an error or a panic of fn, or when
// the lock is lost, nothing is recorded, and the next caller runs fn again. A process
// that ends between fn and the record leaves none either: the work is done at least once,
// and a resource can find the later run by the tokens. If the record fails after fn has
// succeeded, Once returns the error of the record.
//
// The service remembers the last 100 keys of a lock, in the order in which their runs
// ended, until an operator deletes them. A caller with an older key, because it was stopped
// for so long, runs fn again. Keys are compared for equality only.
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
	return queue.Do(ctx, plain.Lock, func(ctx context.Context, h *session.Hold) error {
		_, done, err := once.Find(ctx, m.s, m.name, key)
		if err != nil {
			return fmt.Errorf("mutex: once %q: %w", m.name, err)
		}
		if done {
			return nil
		}
		if err = fn(ctx, h); err != nil {
			return err
		}
		// The end of the caller's ctx does not undo what is done.
		if err = once.Add(h.Context(), m.s, h, key); err != nil { //nolint:contextcheck // the hold's
			return fmt.Errorf("mutex: once %q: %q is done, but that could not be recorded: %w", m.name, key, err)
		}
		return nil
	})
}
