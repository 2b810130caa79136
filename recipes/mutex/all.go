package mutex

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
)

// LockAll takes several locks as one: it joins all lines in one transaction,
// waits until it holds in each, and returns one hold, with one token. The hold's
// context ends when any of the locks is lost, and Unlock gives all back in one
// transaction.
//
// Callers that hold nothing yet cannot deadlock, whatever the order in which
// they name the locks: one transaction puts two requests into the same order in
// every line that they share. Who holds a lock already, and asks for others, can.
//
// The locks must be at least two, of different names, of one Session, and no
// more than the service takes in one transaction (32 with the backends of this
// module); in a shared layout, no name may contain another. With anything else
// LockAll returns session.ErrInvalidOptions, ErrInvalidName or ErrRefused; with a
// ctx that comes from a live hold of one of them ErrReentrant, also for locks with
// Options.Reentrant, since one entry would be there before the others. ctx ends
// the waiting as in Mutex.Lock, and after any error nothing is left.
//
// While it waits for one lock, LockAll holds those that it has got already, so
// others wait for as long as that takes. If its place in one line is lost, it
// joins all of them again.
//
// Of locks that keep account (Options.Robust) the hold tells the worst: that one
// of the holders before has died. It takes one round trip for each of them. If
// the hold is lost with one of the locks, its end counts as unclean in all.
func LockAll(ctx context.Context, locks ...*Mutex) (*session.Hold, error) {
	return all(ctx, "lock all", false, locks)
}

// TryLockAll is LockAll for those who will not wait: it takes all locks, or
// returns an error that is session.ErrNotAcquired and has written nothing. While
// the service does not answer it is bounded as TryLock is.
func TryLockAll(ctx context.Context, locks ...*Mutex) (*session.Hold, error) {
	return all(ctx, "try lock all", true, locks)
}

// all is LockAll and TryLockAll.
func all(ctx context.Context, op string, try bool, locks []*Mutex) (*session.Hold, error) {
	rs, err := requests(ctx, try, locks)
	if err != nil {
		return nil, fmt.Errorf("mutex: %s: %w", op, err)
	}
	h, err := queue.Acquire(ctx, locks[0].s, rs...)
	if err != nil {
		return nil, fmt.Errorf("mutex: %s %s: %w", op, names(locks), err)
	}
	return h, nil
}

// What cannot be taken together.
var (
	errFew      = fmt.Errorf("%w: give at least two locks; for one there is Lock", session.ErrInvalidOptions)
	errSessions = fmt.Errorf("%w: the locks must be of one Session, since they are taken in one transaction of it", session.ErrInvalidOptions)
)

// requests checks the locks, before anything is sent.
func requests(ctx context.Context, try bool, locks []*Mutex) ([]queue.Request, error) {
	if len(locks) < 2 {
		return nil, errFew
	}
	rs := make([]queue.Request, len(locks))
	for i, m := range locks {
		if m == nil {
			return nil, fmt.Errorf("%w: lock %d is nil", session.ErrInvalidOptions, i+1)
		}
		if m.s != locks[0].s {
			return nil, fmt.Errorf("%w: %q and %q are not", errSessions, locks[0].name, m.name)
		}
		r := m.request(try)
		if queue.Core().Inside(ctx, m.s, m.name) != nil {
			r.Err = session.ErrReentrant
		}
		if r.Err != nil {
			r.Err = fmt.Errorf("%q: %w", m.name, r.Err)
		}
		rs[i] = r
	}
	if p := queue.Core().Of(locks[0].s).Profile(); p.MaxAll > 0 && len(locks) > p.MaxAll {
		rs[0].Err = fmt.Errorf("%w: %d locks, at most %d go into one transaction on %s", session.ErrInvalidOptions, len(locks), p.MaxAll, p.Service)
	}
	return rs, nil
}

// names are those of the locks, as an error shows them.
func names(locks []*Mutex) string {
	quoted := make([]string, len(locks))
	for i, m := range locks {
		quoted[i] = fmt.Sprintf("%q", m.name)
	}
	return strings.Join(quoted, ", ")
}
