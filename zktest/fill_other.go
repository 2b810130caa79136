//go:build !linux

package zktest

import (
	"errors"
	"fmt"
)

// Fill works on Linux only.
func (m *Member) Fill() error {
	return fmt.Errorf("zktest: fill the disk of %q: %w", m.Name(), errors.ErrUnsupported)
}
