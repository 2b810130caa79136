package fence

import (
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session"
)

// ErrStale says that the token is lower than one that was seen: the lock
// was lost, and nothing may be done for it. A *StaleError tells more.
var ErrStale = errors.New("stale token")

// errInvalid: what was shown is no token and mode of a hold.
var errInvalid = errors.New("no hold has this")

// StaleError tells which token was refused for the sake of which other. errors.Is
// says that it is ErrStale.
type StaleError struct {
	Token session.Token // that was shown
	Mode  session.Mode  // of its hold
	Seen  session.Token // that outbids it
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token: %s %d, and %d was here", e.Mode, e.Token, e.Seen)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Marks are what a resource remembers of the tokens that it has seen: the highest
// of each mode. The zero Marks have seen nobody. They are two integers, to be
// stored beside the data, in JSON or in two columns.
type Marks struct {
	Exclusive session.Token `json:"exclusive"`
	Shared    session.Token `json:"shared"`
}

// Touch is the rule. It returns the marks as they are after somebody with that
// token has touched the resource, or a *StaleError, and the marks as they were,
// if he must not. It changes nothing by itself: store the marks before or with
// what is done, in one transaction with the check.
//
// A hold of mode Weighted excludes others as one of mode Exclusive does: give each slot
// of a semaphore marks of its own.
//
// A token below 1 or an unknown mode is an error that is not ErrStale: no hold has
// such a token or mode, so a caller has forgotten to pass one on.
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
