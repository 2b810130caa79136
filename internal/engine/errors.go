package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// The conditions that callers branch on, together with those of packages driver and rule. Package
// session shows them to users under the same names, and has there what they mean.
var (
	ErrLost           = errors.New("lock lost")
	ErrReleasePending = errors.New("release pending")
	ErrUnlocked       = errors.New("already unlocked")
	ErrReleased       = errors.New("lock released")
	ErrReentrant      = errors.New("caller holds this lock already")
	ErrNotWriter      = errors.New("not a write hold of this lock")
	ErrInvalidName    = errors.New("invalid lock name")
	ErrInvalidOptions = errors.New("invalid options")

	// ErrNotOpened is the error of a Session that is nil or zero.
	ErrNotOpened = fmt.Errorf("%w: the Session is nil or was never opened", driver.ErrClosed)

	// errPlaceLost: the entry of a waiter is gone, and the waiter did not leave.
	errPlaceLost = errors.New("the entry of the waiter is gone at the service")

	// errLeaving: the entries are asked to leave, so nothing else is asked about them.
	errLeaving = errors.New("the entry is about to leave")
)

// The ends of a hold alone; the others are those of its term.
const (
	// Deleted: the entry is gone. It is not known yet whether its session is gone too.
	Deleted term.End = "deleted"

	// Evicted: another client deleted the entry, and the session lives.
	Evicted term.End = "evicted"
)

// Loss is how a hold, or a whole service session, ended other than by a release.
type Loss struct {
	Name    string // the lock; "" for a service session
	Token   int64  // of the hold; 0 for a service session
	Session string // the service session
	Why     term.End
	Err     error // the service's own error, or nil
}

// NotAcquired is the error of a request that gave up, or that was not to wait and would have
// had to. It has what could be read of the queue without delay.
type NotAcquired struct {
	First driver.Entry // the first entry of the queue; zero if it is not known
	Ahead int          // how many entries were ahead at the last read; -1 if that is not known
	Now   time.Time    // when First was read, by our wall clock
	Err   error        // why the request gave up; nil if it was not to wait
}

// Error is for tests and logs: package session makes the text for users.
func (e *NotAcquired) Error() string {
	return fmt.Sprintf("not acquired: behind %q, %d ahead: %v", e.First.Key, e.Ahead, e.Err)
}

// Unwrap returns why the request gave up.
func (e *NotAcquired) Unwrap() error { return e.Err }
