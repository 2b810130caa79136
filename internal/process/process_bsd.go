//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"syscall"
)

// Command is exec.CommandContext for a program that does not exit when its
// standard input ends. Start kills it when this process dies all the same: a
// shell watches the input. The command is only for Start and StartPiped: with
// another input, which may end at once, the shell kills the program.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return leashed(ctx, name, args...)
}

// dieWithParent changes nothing: these systems have no such attribute, so the end of
// stdin has to do.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

// stopped returns at once: here the state of the process cannot be read without
// reaping it, for which its own goroutine waits.
func (p *Process) stopped() error { return nil }
