package fence

import (
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session"
)

// Mode says what a hold admits beside itself.
type Mode uint8

// The modes. The zero Mode is the careful one.
const (
	Exclusive Mode = iota // nobody: a mutex, a writer, a leader, a slot
	Shared                // others who share: a reader, also a writer after its downgrade
)

// String returns the mode's name, as session/driver's modes have it.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return "unknown"
}

// ErrStale says that the token is lower than one that was seen: the lock
// was lost, and nothing may be done for it. A *StaleError tells more.
var ErrStale = errors.New("stale token")

// errInvalid: what was shown is no token and mode of a hold.
var errInvalid = errors.New("no hold has this")

// StaleError tells which token was refused for the sake of which other. errors.Is
// says that it is ErrStale.
type StaleError struct {
	Token session.Token // that was shown
	Mode  Mode          // of its hold
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
// A token below 1 or an unknown mode is an error that is not ErrStale: no hold has
// such a token, so somebody has forgotten to pass one on.
func (m Marks) Touch(t session.Token, mode Mode) (Marks, error) {
	if t < 1 || mode > Shared {
		return m, fmt.Errorf("fence: token %d, mode %s: %w", t, mode, errInvalid)
	}
	seen := m.Exclusive
	if mode == Exclusive {
		seen = max(seen, m.Shared)
	}
	if t < seen {
		return m, &StaleError{Token: t, Mode: mode, Seen: seen}
	}
	after := m
	if mode == Exclusive {
		after.Exclusive = t
	} else {
		after.Shared = max(m.Shared, t)
	}
	return after, nil
}
