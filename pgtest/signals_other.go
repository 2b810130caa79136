//go:build !unix

package pgtest

import (
	"errors"
	"os"
)

// children returns nil: here nothing finds the children of a postmaster. They end when it ends.
func children(int, string) []int { return nil }

func waitGone(int) {}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func stop(int) error { return errors.ErrUnsupported }

func resume(int) error { return errors.ErrUnsupported }
