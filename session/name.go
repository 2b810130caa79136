package session

import (
	"fmt"
	"unicode/utf8"
)

// MaxName is the longest name of a lock, in bytes.
const MaxName = 512

// checkName returns an error that wraps ErrInvalidName if no lock of this
// Session can have that name: it is empty, longer than MaxName bytes, not
// UTF-8, holds a NUL, or the layout of the backend cannot hold it. Nothing is
// sent.
func (s *Session) checkName(name string) error {
	switch {
	case !s.opened():
		return fmt.Errorf("%w: the Session is nil or was never opened", ErrClosed)
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidName, name)
	}
	for i := range len(name) {
		if name[i] == 0 {
			return fmt.Errorf("%w %q: it contains a NUL byte", ErrInvalidName, name)
		}
	}
	if err := s.backend.CheckName(name); err != nil {
		return fmt.Errorf("%w %q: %w", ErrInvalidName, name, err)
	}
	return nil
}
