package trial

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Pause implements Process.
func (c *child) Pause() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("trial: stop a client process: %w", err)
	}
	return Stopped(c.cmd.Process.Pid)
}

// Resume implements Process.
func (c *child) Resume() error {
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("trial: let a client process go on: %w", err)
	}
	return nil
}

// Stopped waits until the kernel says of a process that was sent SIGSTOP that it
// has stopped, and says why if it does not.
func Stopped(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		state, err := stateOf(pid)
		switch {
		case err != nil:
			return err
		case state == 'T':
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("trial: process %d is in state %c, not stopped", pid, state)
		}
		time.Sleep(stateEvery)
	}
}

// stateOf is the state of a process: behind its name, which may contain anything,
// in parentheses.
func stateOf(pid int) (byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("trial: %w", err)
	}
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !ok || len(rest) == 0 {
		return 0, fmt.Errorf("trial: process %d: no state in %q", pid, stat)
	}
	return rest[0], nil
}
