//go:build !linux

package trial

import (
	"errors"
	"fmt"
)

// Pause implements Process. Only Linux tells whether a process has stopped.
func (c *child) Pause() error { return fmt.Errorf("trial: stop a process: %w", errors.ErrUnsupported) }

// Resume implements Process.
func (c *child) Resume() error { return c.Pause() }

// Stopped waits until a process that was sent SIGSTOP has stopped.
func Stopped(int) error { return fmt.Errorf("trial: see a process stopped: %w", errors.ErrUnsupported) }
