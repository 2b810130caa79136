//go:build !linux

package onetcd

import "errors"

// fill lets every write of a process to a file fail.
func fill(int) error { return errors.ErrUnsupported }

// running says whether there is a process.
func running(pid int) bool { return pid != 0 }
