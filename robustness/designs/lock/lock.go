// Package lock is what all designs of robustness/designs have in common: a way to acquire, and a way to
// release. A design that can do more has more methods.
package lock

import (
	"context"
	"errors"
	"time"
)

// Locker is one program's client of a design. Its methods may be called concurrently.
type Locker interface {
	// Lock waits until the lock of that name is acquired, or until ctx ends. An error before that is of
	// the network or of a server; the program tries again.
	Lock(ctx context.Context, name string) (Hold, error)

	Close() error
}

// Hold is an acquired lock.
type Hold interface {
	// Unlock releases the lock. It returns ErrLost if the design notices that it is not held any more.
	Unlock(ctx context.Context) error
}

// Lossy is a Hold whose program learns of the loss of the lock.
type Lossy interface {
	// Lost returns a channel that is closed when the design reports the loss.
	Lost() <-chan struct{}
}

// Checked is a Hold that its program asks before it writes: the program's own clock may know more than a notice
// that is on its way.
type Checked interface{ Held() bool }

// Tokened is a Hold with a fencing token.
type Tokened interface{ Token() int64 }

// Worker is a Locker whose program sends the requests of its work through the connections that its lock uses.
type Worker interface {
	Work(ctx context.Context) error
}

// Clocked is a Locker that depends on the clock of its program.
type Clocked interface {
	// SetClock sets the clock of this program ahead, and back if it is below 0.
	SetClock(ahead time.Duration)
}

// ErrLost means that the lock was not held any more when it was released.
var ErrLost = errors.New("lock: the lock was lost before it was released")

// Wait waits for d, or until ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
}

// Pause is how long a waiter of a design that polls waits before it tries again.
const Pause = 50 * time.Millisecond
