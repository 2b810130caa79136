//go:build unix

package supervise

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal of this process, nil if there is none.
type terminal struct {
	fd    int
	own   *os.File // the file to close; nil if the terminal is stdin
	ours  int      // our process group
	stdin bool
	given bool        // the command's group was put in the foreground
	modes *term.State // those when it was first put there, nil if they could not be read
}

// openTerminal finds the terminal that typed signals come from: stdin, or else /dev/tty,
// where a command may ask for a password.
func openTerminal(spec Spec) *terminal {
	t := &terminal{fd: int(spec.Stdin.Fd()), ours: unix.Getpgrp(), stdin: true}
	if _, err := t.foreground(); err == nil {
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

// foreground returns the foreground process group of the terminal. It is an error if the
// terminal is not the controlling terminal of this process.
func (t *terminal) foreground() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// inForeground reports whether our group is in the foreground.
func (t *terminal) inForeground() bool {
	g, err := t.foreground()
	return err == nil && g == t.ours
}

// givenAtStart reports whether the command gets the terminal from the start. It does not if
// stdout is a pipe: the reader may be a pager, which reads the keyboard.
func (t *terminal) givenAtStart(spec Spec) bool {
	if t == nil || !t.inForeground() {
		return false
	}
	info, err := spec.Stdout.Stat()
	pipe := err == nil && info.Mode()&fs.ModeNamedPipe != 0
	return spec.Foreground || t.stdin && !pipe
}

// give puts a group in the foreground, if ours is there.
func (t *terminal) give(group int) bool {
	if t == nil || !t.inForeground() {
		return false
	}
	t.save()
	t.given = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
	return t.given
}

// save saves the modes of the terminal, such as echo. Later ones may be the command's.
func (t *terminal) save() {
	if t.modes == nil {
		t.modes, _ = term.GetState(t.fd) // take copes with nil
	}
}

// take puts our group in the foreground again, and reports whether the command had the
// terminal. It does nothing if the command never got it, as when the shell has us in the
// background.
func (t *terminal) take() bool {
	if t == nil || !t.given {
		return false
	}
	t.given = false
	// A background process is stopped if it does this.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.ours) // fails if the terminal was hung up
	signal.Reset(syscall.SIGTTOU)
	return true
}

// restore restores the modes of the terminal, which a command that was killed cannot do. It
// does nothing while another group is in the foreground.
func (t *terminal) restore() {
	if t != nil && t.modes != nil && t.inForeground() {
		_ = term.Restore(t.fd, t.modes) // fails if the terminal was hung up
	}
}
