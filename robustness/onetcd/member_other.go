//go:build !linux

package onetcd

import "errors"

// fill is not supported.
func fill(int) error { return errors.ErrUnsupported }

// running reports whether there is a process id.
func running(pid int) bool { return pid != 0 }
