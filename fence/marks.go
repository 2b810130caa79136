package fence

import (
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session"
)

// ErrStale means that the token is lower than one that was seen. The lock was lost, and the
// caller must not access the resource. A *StaleError contains both tokens.
var ErrStale = errors.New("stale token")

// errInvalid: what was shown is no token and mode of a hold.
var errInvalid = errors.New("no hold has this")

// StaleError describes a refused token. errors.Is reports true for ErrStale.
type StaleError struct {
	Token session.Token // the token that was refused
	Mode  session.Mode  // of its hold
	Seen  session.Token // the token that outbids it
}

// Error returns both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token: %s token %d refused: token %d was seen", e.Mode, e.Token, e.Seen)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Marks are the highest tokens that a resource has seen, one of each mode. The zero
// Marks have seen none. They are two integers, to be stored with the data, in JSON or
// in two columns.
type Marks struct {
	Exclusive session.Token `json:"exclusive"`
	Shared    session.Token `json:"shared"`
}

// Touch applies the rules. It returns the marks as they are after an access with that
// token; or, if the access must be refused, the unchanged marks and a *StaleError. It
// changes nothing itself: store the marks before the work or with it, in one
// transaction with the check.
//
// Mode Weighted counts as Exclusive: keep separate marks for each slot of a semaphore.
//
// A token below 1 or an unknown mode is an error that is not ErrStale. No hold has such
// a token or mode, so a caller has forgotten to pass one on.
func (m Marks) Touch(t session.Token, mode session.Mode) (Marks, error) {
	shared := mode == session.Shared
	if t < 1 || !shared && mode != session.Exclusive && mode != session.Weighted {
		return m, fmt.Errorf("fence: token %d, mode %q: %w", t, mode, errInvalid)
	}
	seen := m.Exclusive
	if !shared {
		seen = max(seen, m.Shared)
	}
	if t < seen {
		return m, &StaleError{Token: t, Mode: mode, Seen: seen}
	}
	after := m
	if !shared {
		after.Exclusive = t
	} else {
		after.Shared = max(m.Shared, t)
	}
	return after, nil
}
