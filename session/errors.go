package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// The conditions that callers branch on with errors.Is. The service's own error
// stays in the chain.
var (
	// ErrNotAcquired: the lock was not taken; nothing is left in the line. A
	// *NotAcquiredError tells who has it.
	ErrNotAcquired = errors.New("not acquired")

	// ErrLost: the hold ended before its Unlock. A *LostError tells why.
	ErrLost = errors.New("lock lost")

	// ErrReleasePending: the delete was not acknowledged in time. It is being
	// finished in the background; at the latest the entry dies with the
	// session.
	ErrReleasePending = errors.New("release pending")

	// ErrUnlocked: the hold was given back already. Nothing was sent.
	ErrUnlocked = errors.New("already unlocked")

	// ErrReleased is the cause of a hold's context that ended by Unlock.
	ErrReleased = errors.New("lock released")

	// ErrReentrant: the context comes from a live hold of the same lock, so
	// that waiting for it would never end.
	ErrReentrant = errors.New("caller holds this lock already")

	// ErrNotWriter: the hold is not one that can be downgraded: it is a reader's,
	// or that of another lock.
	ErrNotWriter = errors.New("not a write hold of this lock")

	// ErrNotLeader: the hold is not that of the election's leader.
	ErrNotLeader = errors.New("not the leader's hold of this election")

	// ErrNoLeader: nobody leads at the moment.
	ErrNoLeader = errors.New("no leader")

	// ErrWeight: a semaphore cannot give that many permits: none, or more than
	// its limit.
	ErrWeight = errors.New("no such number of permits")

	// ErrLimitMismatch: the semaphore has another limit than the caller gives; the text
	// of the error names both.
	ErrLimitMismatch = driver.ErrLimitMismatch

	// ErrInvalidName: no lock can have this name.
	ErrInvalidName = errors.New("invalid lock name")

	// ErrInvalidReason: no ask can have this reason.
	ErrInvalidReason = errors.New("invalid reason")

	// ErrInvalidOptions: a field of the options has a value that it cannot
	// have.
	ErrInvalidOptions = errors.New("invalid options")

	// ErrClosed: the Session was closed or never opened, or the client that it
	// works on was closed.
	ErrClosed = driver.ErrClosed

	// ErrForeignKey: something that has no session stands in the line. It
	// would stay for ever; somebody must delete it.
	ErrForeignKey = errors.New("entry without a session in the line")

	// ErrGone: the entry that was to be evicted is not in the line, or not any
	// more.
	ErrGone = driver.ErrGone

	// ErrDenied: wrong credentials, or a permission is missing.
	ErrDenied = driver.ErrDenied

	// ErrRefused: the service refuses until an operator acts.
	ErrRefused = driver.ErrRefused

	// ErrUnavailable: no server answered in time.
	ErrUnavailable = driver.ErrUnavailable
)

// Reason is why a hold or a service session ended other than by Unlock or Close. Its
// text is a word that programs may store and compare. It is an error too, so that
// errors.Is(err, session.ReasonDeadline) reports whether err is a loss for that reason.
type Reason string

// The reasons. All but ReasonClosed can come at any time.
const (
	// ReasonDeadline: no renewal was acknowledged in time; the service may grant
	// the lock to another client when the margin has passed.
	ReasonDeadline Reason = "deadline"
	// ReasonExpired: the service no longer has the session. The session expired, or
	// somebody revoked it: the service does not say which.
	ReasonExpired Reason = "expired"
	// ReasonDeleted: the entry is gone, and it is not known yet whether alone or
	// with its session. It is the reason of a context that ends with this event:
	// the context does not wait for an answer of the service. Unlock asks, and
	// returns ReasonEvicted or ReasonExpired if the service answers in time.
	ReasonDeleted Reason = "deleted"
	// ReasonEvicted: another client deleted the entry, as Session.Evict does, and
	// the session lives.
	ReasonEvicted Reason = "evicted"
	// ReasonClosed: Session.Close was called, or the client was closed.
	ReasonClosed Reason = "closed"
)

// Error returns the reason as a sentence for people.
func (r Reason) Error() string {
	switch r {
	case ReasonDeadline:
		return "the deadline passed without contact with the service"
	case ReasonExpired:
		return "the session expired or was revoked at the service"
	case ReasonDeleted:
		return "its entry is gone at the service"
	case ReasonEvicted:
		return "its entry was evicted: another client deleted it"
	case ReasonClosed:
		return "the session was closed"
	}
	return string(r)
}

// LostError tells how a hold, or a whole term, was lost. errors.Is says that it
// is ErrLost.
type LostError struct {
	Name    string // the lock; "" for a term
	Token   Token  // of the hold; 0 for a term
	Session string // the service session
	Reason  Reason
	Err     error // what the service said, if it said something
}

// Error names the lock, the token and the reason, on one line.
func (e *LostError) Error() string {
	var b strings.Builder
	if e.Name != "" {
		fmt.Fprintf(&b, "lock %q (token %d) lost: ", e.Name, e.Token)
	}
	if e.Name == "" {
		fmt.Fprintf(&b, "session %s: ", e.Session)
	}
	b.WriteString(e.Reason.Error())
	if e.Err != nil {
		fmt.Fprintf(&b, " (%s)", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return b.String()
}

// Is makes errors.Is true for ErrLost and for the Reason.
func (e *LostError) Is(target error) bool { return target == ErrLost || target == e.Reason }

// Unwrap returns what the service said.
func (e *LostError) Unwrap() error { return e.Err }

// NotAcquiredError tells who had the lock when a request gave up, as far as
// that could be learned without delay. errors.Is says that it is
// ErrNotAcquired.
type NotAcquiredError struct {
	Holder Entry     // the first in the queue; zero if not learned
	Ahead  int       // how many stood ahead when last seen; -1 if not learned
	Now    time.Time // when Holder was read, by the wall clock
	Err    error     // why the request gave up; nil for a try
}

// Error reads like: not acquired: held by web-2 pid 4121 for 2m13s, 3 ahead. Where
// it is not known since when the holder holds, it reads like: not acquired: held by
// web-2 pid 4121, which asked 15s ago, 3 ahead.
func (e *NotAcquiredError) Error() string {
	var b strings.Builder
	b.WriteString(ErrNotAcquired.Error())
	switch h := e.Holder; {
	case h.Key == "":
	case h.Foreign || h.Host == "":
		fmt.Fprintf(&b, ": held by %.256q", h.Key)
	default:
		fmt.Fprintf(&b, ": held by %s pid %d", plain(h.Host), h.PID)
		if h.Label != "" {
			fmt.Fprintf(&b, " (%s)", plain(h.Label))
		}
		b.WriteString(e.since())
	}
	if e.Ahead > 0 {
		fmt.Fprintf(&b, ", %d ahead", e.Ahead)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// since returns for how long the holder has held, or when it asked if only that is
// known.
func (e *NotAcquiredError) since() string {
	asked, granted := e.Holder.Asked, e.Holder.Granted
	if held := e.Now.Sub(granted); !granted.IsZero() && held >= 0 {
		return fmt.Sprintf(" for %s", round(held))
	}
	if ago := e.Now.Sub(asked); !asked.IsZero() && ago >= 0 {
		return fmt.Sprintf(", which asked %s ago", round(ago))
	}
	return ""
}

// plain is what an entry says of itself as it may stand in a log and on a
// terminal: anybody may have written it. What cannot be printed is quoted, and
// what is longer than any of ours is cut.
func plain(s string) string {
	if q := fmt.Sprintf("%.128q", s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

// round shortens d to what a person reads.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *NotAcquiredError) Is(target error) bool { return target == ErrNotAcquired }

// Unwrap returns why the request gave up, context.Canceled for example.
func (e *NotAcquiredError) Unwrap() error { return e.Err }
