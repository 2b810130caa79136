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

// group is the process group of a command, which leads it. Its number is that of
// the command, which is kept, dead as it may be, for as long as signals are sent:
// so the number cannot have become somebody else's.
type group struct {
	id     int
	exited bool
	reaped bool
	status unix.WaitStatus
}

// startGroup starts the command in a group of its own, and in front of the
// terminal if that is to be.
func startGroup(spec Spec, tty *terminal, guard *guard) (*group, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	tie(attr)
	if tty.eager(spec) {
		attr.Foreground, attr.Ctty = true, tty.fd
		tty.given = true
	}
	p, err := os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{
		Env: append(slices.Clip(spec.Env), guard.badge()...), Files: []*os.File{spec.Stdin, spec.Stdout, spec.Stderr}, Sys: attr,
	})
	if err != nil {
		tty.take()
		return nil, fmt.Errorf("start %s: %w", spec.Args[0], err)
	}
	g := &group{id: p.Pid}
	_ = p.Release() // we wait for the whole group, and by its number
	return g, nil
}

// signal sends a signal to all of the group, and to the command if it has left
// that. There is nothing to be done about one who may not be signalled.
func (g *group) signal(sig syscall.Signal) {
	if g.reaped && g.empty() {
		return
	}
	if err := unix.Kill(-g.id, sig); errors.Is(err, unix.ESRCH) && !g.reaped {
		_ = unix.Kill(g.id, sig)
	}
}

// look takes in what has become of the group since the last time. While the
// command lives, orphans of the group are reaped as they die.
func (g *group) look() (stopped syscall.Signal) {
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

// bury reaps what is ours of the group, and says how the command ended.
func (g *group) bury() unix.WaitStatus {
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
