//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"syscall"
)

// Command is exec.CommandContext for a program that does not leave by itself when
// its standard input ends. With Start it dies with this process all the same: a
// shell watches the input.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return leashed(ctx, name, args...)
}

// dieWithParent has no means here; the end of stdin has to do.
func dieWithParent() *syscall.SysProcAttr { return nil }

// stopped cannot be known here without reaping what the process's own goroutine
// waits for.
func (p *Process) stopped() error { return nil }
