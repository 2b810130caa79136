//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group of a command. Its number is the pid of the command. The
// command is not reaped while signals may be sent to the group, so no other process can
// have the number.
type group struct {
	id     int
	exited bool
	reaped bool
	status unix.WaitStatus
}

// startGroup starts the command in a group of its own, in the foreground of the terminal
// if spec requires that.
func startGroup(spec Spec, tty *terminal, guard *guard) (*group, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(attr)
	if tty.givenAtStart(spec) {
		attr.Foreground, attr.Ctty = true, tty.fd
		tty.given = true
		tty.save()
	}
	p, err := os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{
		Env: append(slices.Clip(spec.Env), guard.marker()...), Files: []*os.File{spec.Stdin, spec.Stdout, spec.Stderr}, Sys: attr,
	})
	if err != nil {
		tty.take()
		return nil, fmt.Errorf("start %s: %w", spec.Args[0], err)
	}
	g := &group{id: p.Pid}
	_ = p.Release() // we wait for the whole group, by its number
	return g, nil
}

// signal sends a signal to all of the group, and to the command if that has left the
// group. It ignores a process that we may not signal.
func (g *group) signal(sig syscall.Signal) {
	if g.reaped && g.empty() {
		return
	}
	err := unix.Kill(-g.id, sig)
	if errors.Is(err, unix.ESRCH) && !g.reaped {
		_ = unix.Kill(g.id, sig)
	}
}

// poll updates the state of the command, and returns the signal that stopped it since the
// last call, 0 if none. While the command lives, poll reaps orphans of the group.
func (g *group) poll() (stopped syscall.Signal) {
	for !g.exited {
		if ended(g.id) {
			g.exited = true
			return stopped
		}
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-g.id, &ws, unix.WNOHANG|unix.WUNTRACED, nil)
		if errors.Is(err, unix.ECHILD) { // the command has left the group
			pid, err = unix.Wait4(g.id, &ws, unix.WNOHANG|unix.WUNTRACED, nil)
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return stopped
		case pid == g.id && ws.Stopped():
			stopped = ws.StopSignal()
		case pid == g.id && (ws.Exited() || ws.Signaled()):
			g.exited, g.reaped, g.status = true, true, ws
		}
	}
	return stopped
}

// reap reaps our children in the group, and returns how the command ended.
func (g *group) reap() unix.WaitStatus {
	for !g.reaped {
		pid, err := unix.Wait4(g.id, &g.status, 0, nil)
		g.reaped = pid == g.id || err != nil && !errors.Is(err, unix.EINTR)
	}
	for {
		pid, err := unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return g.status
		}
	}
}
