package mutex

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session"
)

// LockAll acquires several locks as one. It joins all queues in one transaction, blocks
// until its entries hold in every one, and returns one hold with one token. The context
// of the hold is cancelled when any of the locks is lost, and Unlock releases all of
// them in one transaction.
//
// Callers that hold nothing yet cannot deadlock, whatever the order in which they name
// the locks: the transactions of two callers have the same order in every queue that
// they share. A caller that already holds a lock can deadlock with LockAll as with
// Lock.
//
// The locks must be at least two, each named once, of one Session, and no more than
// the service accepts in one transaction (32 with the backends of this module). In a
// layout that is shared with other programs, no name may contain another. LockAll
// returns session.ErrInvalidOptions, ErrInvalidName or ErrRefused otherwise. It returns
// session.ErrReentrant if ctx belongs to a live hold of any of the locks, even one with
// Options.Reentrant. ctx bounds the wait as in Mutex.Lock, and nothing is left behind
// after an error.
//
// While LockAll waits for one lock it holds those that it has acquired already, so the
// waiters behind its entries wait too. If an entry in one queue is lost, LockAll joins
// all queues again, at their ends.
//
// If a lock has Options.Robust, PreviousDied of the hold reports true when the previous
// holder of any of the locks died; this costs one round trip for each such lock, when all
// locks are acquired: a LockAll that waits for one of them is recorded in none. If one lock is
// lost, the next holder of each of them sees PreviousDied. Only if Unlock itself discovers
// the loss are the others released cleanly.
func LockAll(ctx context.Context, locks ...*Mutex) (*session.Hold, error) {
	return all(ctx, "lock all", false, locks)
}

// TryLockAll is LockAll without waiting: it acquires all locks, or returns an error
// that is session.ErrNotAcquired and has written nothing. If the service does not
// answer, it returns as TryLock does.
func TryLockAll(ctx context.Context, locks ...*Mutex) (*session.Hold, error) {
	return all(ctx, "try lock all", true, locks)
}

// all is LockAll and TryLockAll.
func all(ctx context.Context, op string, try bool, locks []*Mutex) (*session.Hold, error) {
	rs, err := requests(try, locks)
	if err != nil {
		return nil, fmt.Errorf("mutex: %s: %w", op, err)
	}
	h, err := session.Engine(door.Key{}).Acquire(ctx, locks[0].s, rs...)
	if err != nil {
		return nil, fmt.Errorf("mutex: %s %s: %w", op, names(locks), err)
	}
	return h, nil
}

// requests checks the locks, before anything is sent. Hooks report only Request.Err.
func requests(try bool, locks []*Mutex) ([]engine.Request, error) {
	if len(locks) < 2 {
		return nil, fmt.Errorf("%w: give at least two locks; use Lock for one", session.ErrInvalidOptions)
	}
	rs := make([]engine.Request, len(locks))
	for i, m := range locks {
		if m == nil {
			return nil, fmt.Errorf("%w: lock %d is nil", session.ErrInvalidOptions, i+1)
		}
		if m.s != locks[0].s {
			return nil, fmt.Errorf("%w: the locks must be of one Session, because one transaction acquires them: %q and %q are not", session.ErrInvalidOptions, locks[0].name, m.name)
		}
		r := m.request(try)
		if r.Err != nil {
			r.Err = fmt.Errorf("%q: %w", m.name, r.Err)
		}
		rs[i] = r
	}
	i := session.Engine(door.Key{}).Of(locks[0].s).Info()
	if i.MaxJoin > 0 && len(locks) > i.MaxJoin {
		rs[0].Err = fmt.Errorf("%w: %d locks, at most %d go into one transaction on %s", session.ErrInvalidOptions, len(locks), i.MaxJoin, i.Service)
	}
	return rs, nil
}

// names returns the names of the locks for an error.
func names(locks []*Mutex) string {
	quoted := make([]string, len(locks))
	for i, m := range locks {
		quoted[i] = fmt.Sprintf("%q", m.name)
	}
	return strings.Join(quoted, ", ")
}
