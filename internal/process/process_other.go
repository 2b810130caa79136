//go:build !unix

package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// CanPause reports whether Pause, Resume and Terminate work on this system.
const CanPause = false

const farewell = ""

// Command is exec.CommandContext for a program that does not exit when its
// standard input ends. On this system the program keeps running when this process
// dies. The command is only for Start and StartPiped.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

// dieWithParent changes nothing: this system has no such attribute, so the end of
// stdin has to do.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

// Pause fails: there is no such signal here.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume fails: there is no such signal here.
func (p *Process) Resume() error { return errors.ErrUnsupported }

// Terminate fails: there is no such signal here.
func (p *Process) Terminate() error { return errors.ErrUnsupported }

// Killed returns false: this system has no SIGKILL.
func Killed(error) bool { return false }
