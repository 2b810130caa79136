//go:build unix && !linux

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// children returns the children of a postmaster, none if that is 0.
func children(postmaster int, _ string) []int {
	if postmaster == 0 {
		return nil
	}
	text, err := exec.CommandContext(context.Background(), "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var all []int
	for line := range strings.Lines(string(text)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil && parent == postmaster {
			all = append(all, pid)
		}
	}
	return all
}

// stop may return before the process is stopped.
func stop(pid int) error { return ended(syscall.Kill(pid, syscall.SIGSTOP)) }

// waitGone returns when the process has ended.
func waitGone(pid int) {
	for syscall.Kill(pid, 0) == nil {
		<-time.After(time.Millisecond)
	}
}

func ended(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
