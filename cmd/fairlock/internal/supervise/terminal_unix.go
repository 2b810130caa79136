//go:build unix

package supervise

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process. A nil one is none.
type terminal struct {
	fd    int
	own   *os.File // to be closed; nil if it is stdin
	ours  int      // our process group
	stdin bool
	given bool // the command's group was put in front
}

// openTerminal finds the terminal that typed signals come from: stdin, or
// whatever else the process has, for commands that ask there for a password.
func openTerminal(spec Spec) *terminal {
	t := &terminal{fd: int(spec.Stdin.Fd()), ours: unix.Getpgrp(), stdin: true}
	if _, err := t.front(); err == nil {
		return t
	}
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t.fd, t.own, t.stdin = int(f.Fd()), f, false
	return t
}

func (t *terminal) close() {
	if t != nil && t.own != nil {
		_ = t.own.Close()
	}
}

// front is the process group that is in front of the terminal. It is an error
// if that is not the controlling terminal of this process.
func (t *terminal) front() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// turn says whether it is our turn at the terminal.
func (t *terminal) turn() bool {
	g, err := t.front()
	return err == nil && g == t.ours
}

// eager says whether the command gets the terminal from the start. With a pipe at
// stdout it does not: what reads there may be a pager, which wants the keyboard.
func (t *terminal) eager(spec Spec) bool {
	if t == nil || !t.turn() {
		return false
	}
	info, err := spec.Stdout.Stat()
	pipe := err == nil && info.Mode()&fs.ModeNamedPipe != 0
	return spec.Foreground || t.stdin && !pipe
}

// give puts a group in front, if it is our turn.
func (t *terminal) give(group int) bool {
	if t == nil || !t.turn() {
		return false
	}
	t.given = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
	return t.given
}

// take puts our group in front again. Not if the shell has sent us to the
// background, for then it was never given.
func (t *terminal) take() {
	if t == nil || !t.given {
		return
	}
	t.given = false
	// Who is not in front is stopped for doing this.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.ours) // it may have been hung up
	signal.Reset(syscall.SIGTTOU)
}
