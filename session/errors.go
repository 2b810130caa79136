package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// The conditions that callers branch on with errors.Is. The service's own error
// stays in the chain.
var (
	// ErrNotAcquired: the lock was not acquired. No entry stays in the queue; if its
	// deletion is not acknowledged yet, the session repeats it in the background. A
	// *NotAcquiredError names the holder.
	ErrNotAcquired = errors.New("not acquired")

	// ErrLost: the hold ended before its Unlock. A *LostError contains the reason.
	ErrLost = engine.ErrLost

	// ErrReleasePending: the service did not acknowledge the deletion in time. The
	// session repeats it in the background; at the latest the entry expires with the
	// session.
	ErrReleasePending = engine.ErrReleasePending

	// ErrUnlocked: this handle was unlocked before. Nothing was sent.
	ErrUnlocked = engine.ErrUnlocked

	// ErrReleased is the cause of a hold's context that was cancelled by Unlock.
	ErrReleased = engine.ErrReleased

	// ErrReentrant: the context belongs to a live hold of the same lock, so the request
	// would wait for itself.
	ErrReentrant = engine.ErrReentrant

	// ErrNotWriter: the hold cannot be downgraded, because it is a read hold or a hold
	// of another lock.
	ErrNotWriter = engine.ErrNotWriter

	// ErrNotLeader: the hold does not belong to the leader of this election.
	ErrNotLeader = errors.New("not the leader's hold of this election")

	// ErrNoLeader: the election has no leader at the moment.
	ErrNoLeader = errors.New("no leader")

	// ErrWeight: the number of permits is below 1 or above the limit of the semaphore.
	ErrWeight = rule.ErrWeight

	// ErrLimitMismatch: the service stores a different limit than the caller gave. The
	// text of the error contains both.
	ErrLimitMismatch = rule.ErrLimitMismatch

	// ErrInvalidName: a lock cannot have this name.
	ErrInvalidName = engine.ErrInvalidName

	// ErrInvalidOptions: a field of the options has an invalid value.
	ErrInvalidOptions = engine.ErrInvalidOptions

	// ErrClosed: the Session was closed or never opened, or the client that it uses was
	// closed.
	ErrClosed = driver.ErrClosed

	// ErrForeignKey: an entry in the queue has no session. It never expires; an
	// operator must delete it.
	ErrForeignKey = rule.ErrForeignKey

	// ErrGone: the entry to evict is not, or no longer, in the queue.
	ErrGone = driver.ErrGone

	// ErrDenied: the credentials are wrong, or a permission is missing.
	ErrDenied = driver.ErrDenied

	// ErrRefused: the service refuses the request until an operator acts.
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
	// ReasonExpired: the service no longer has the session. The session expired, or an
	// operator revoked it: the service does not report which.
	ReasonExpired Reason = "expired"
	// ReasonDeleted: the entry is gone, and it is not known yet whether its session is
	// gone too. It is the reason of a context that this event cancels: the context does
	// not wait for another answer of the service. Unlock reads the session's state, and
	// returns ReasonEvicted or ReasonExpired if the service answers in time.
	ReasonDeleted Reason = "deleted"
	// ReasonEvicted: another client deleted the entry, as Session.Evict does, and the
	// session lives.
	ReasonEvicted Reason = "evicted"
	// ReasonClosed: Session.Close was called, or the client was closed.
	ReasonClosed Reason = "closed"
)

// Error returns the reason as a sentence.
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

// LostError describes how a hold, or a whole service session, was lost. errors.Is
// reports true for ErrLost and for the Reason.
type LostError struct {
	Name    string // the lock; "" for a service session
	Token   Token  // of the hold; 0 for a service session
	Session string // the service session
	Reason  Reason
	Err     error // the service's own error, or nil
}

// Error returns the lock, the token and the reason, on one line.
func (e *LostError) Error() string {
	text := fmt.Sprintf("lock %q (token %d) lost: %s", e.Name, e.Token, e.Reason.Error())
	if e.Name == "" {
		text = fmt.Sprintf("session %s: %s", e.Session, e.Reason.Error())
	}
	if e.Err != nil {
		text += fmt.Sprintf(" (%s)", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return text
}

// Is makes errors.Is true for ErrLost and for the Reason.
func (e *LostError) Is(target error) bool { return target == ErrLost || target == e.Reason }

// Unwrap returns the service's own error.
func (e *LostError) Unwrap() error { return e.Err }

// lostError makes the public error of a loss.
func lostError(l engine.Loss) error {
	return &LostError{Name: l.Name, Token: Token(l.Token), Session: l.Session, Reason: Reason(l.Why), Err: l.Err}
}

// NotAcquiredError describes the queue when a request gave up, as far as it could be
// read without delay. errors.Is reports true for ErrNotAcquired.
type NotAcquiredError struct {
	Holder Entry     // the first in the queue; zero if not known
	Ahead  int       // how many entries were ahead at the last read; -1 if not known
	Now    time.Time // when Holder was read, by the wall clock
	Err    error     // why the request gave up; nil for one that does not wait
}

// Error returns a text such as "not acquired: held by web-2 pid 4121 for 2m13s, 3
// ahead". If the time of the grant is not known, it is "not acquired: held by web-2 pid
// 4121, which asked 15s ago, 3 ahead".
func (e *NotAcquiredError) Error() string {
	var b strings.Builder
	b.WriteString(ErrNotAcquired.Error())
	h := e.Holder
	switch {
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

// since returns for how long the holder has held, or when it joined if only that is known.
func (e *NotAcquiredError) since() string {
	asked, granted := e.Holder.Asked, e.Holder.Granted
	held := e.Now.Sub(granted)
	if !granted.IsZero() && held >= 0 {
		return fmt.Sprintf(" for %s", round(held))
	}
	ago := e.Now.Sub(asked)
	if !asked.IsZero() && ago >= 0 {
		return fmt.Sprintf(", which asked %s ago", round(ago))
	}
	return ""
}

// plain returns a text that an entry claims, fit for a log and a terminal: every client can
// write anything into its entry. A text that cannot be printed is quoted, and one that is
// longer than those of this library is cut.
func plain(s string) string {
	q := fmt.Sprintf("%.128q", s)
	if q[1:len(q)-1] != s {
		return q
	}
	return s
}

// round returns d with as many digits as a person needs.
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

// public makes the public error of what a request failed with.
func public(err error) error {
	n, ok := err.(*engine.NotAcquired) //nolint:errorlint // the engine returns it as it is
	if !ok {
		return err
	}
	e := &NotAcquiredError{Ahead: n.Ahead, Now: n.Now, Err: n.Err}
	if !n.First.Zero() {
		e.Holder = entryOf(1, true, n.First)
	}
	return e
}
