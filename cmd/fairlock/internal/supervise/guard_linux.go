package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/session/driver"
)

// What a guard is sent, newest counts: the group that it is to kill, 0 if that has no
// number yet, and when on the clock of the machine; 0 means only when the pipe ends.
const (
	orderGroup    = 8
	orderDeadline = 8
	orderSize     = orderGroup + orderDeadline // less than PIPE_BUF, so it comes whole
)

// guard is the process that outlives this one if need be. A nil one is none.
type guard struct {
	pid  int
	pipe int // its stdin; it ends with this process, whatever ends that
	told [orderSize]byte
}

// startGuard starts a guard. It has a group of its own, so that neither what is
// typed nor a signal to a group reaches it. It stays in our session: the kernel
// shares processors out to sessions first (sched_autogroup), and under load the
// guard in one of its own was seen to wait for ten seconds while the command ran.
func startGuard(argv []string) (*guard, error) {
	if len(argv) == 0 {
		return nil, nil
	}
	// Writing must not wait for a guard that somebody has stopped, and the command
	// must not inherit it.
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	in := os.NewFile(uintptr(p[0]), "guard")
	defer func() { _ = in.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		defer func() { _ = null.Close() }()
		err = unix.SetNonblock(p[1], true)
	}
	var proc *os.Process
	if err == nil {
		// By this name, since the file may have been replaced by a newer version.
		proc, err = os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
			Dir: "/", Env: os.Environ(), Files: []*os.File{in, null, null}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if err != nil {
		_ = unix.Close(p[1])
		return nil, fmt.Errorf("start guard: %w", err)
	}
	g := &guard{pid: proc.Pid, pipe: p[1]}
	_ = proc.Release()
	return g, nil
}

// badge is what the command has in its environment, and all that it starts: by
// it the guard knows the group if this process dies before it could name it.
func (g *guard) badge() []string {
	if g == nil {
		return nil
	}
	return []string{badgeOf(g.pid)}
}

func badgeOf(pid int) string { return "FAIRLOCK_GUARD=" + strconv.Itoa(pid) }

// watch tells the guard which group to kill, and when at the latest.
func (g *guard) watch(group int, deadline driver.Instant) {
	if g == nil || g.pipe < 0 {
		return
	}
	var o [orderSize]byte
	binary.NativeEndian.PutUint64(o[:], uint64(group))              //nolint:gosec // a pid
	binary.NativeEndian.PutUint64(o[orderGroup:], uint64(deadline)) //nolint:gosec // since the machine was started
	if o == g.told {
		return
	}
	if n, err := unix.Write(g.pipe, o[:]); err == nil && n == orderSize {
		g.told = o
	}
}

// dismiss ends the guard. It has done nothing.
func (g *guard) dismiss() {
	if g == nil || g.pipe < 0 {
		return
	}
	_ = unix.Kill(g.pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(g.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(g.pipe)
	g.pipe = -1
}

// Guard is the whole life of a guard: it kills the group that it is told of when
// in ends, or at the deadline, and returns when in has ended. It is for a process
// of its own, which ignores signals from then on.
func Guard(in *os.File) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE)
	// So that "killall -9 fairlock" leaves it: that is when it is needed.
	_ = os.WriteFile("/proc/self/comm", []byte("lock-guard"), 0)
	hurry()
	defer runtime.UnlockOSThread()
	clock := driver.SystemClock()
	read := make([]byte, 64*orderSize)
	fd, group := int(in.Fd()), 0
	var deadline driver.Instant
	for {
		wake := alarm
		if deadline != 0 {
			wake = max(0, min(wake, deadline.Sub(clock.Now())))
		}
		orders, err := receive(fd, read, wake)
		switch {
		case errors.Is(err, io.EOF):
			killGroup(group)
			return nil
		case err != nil:
			kill9(group) // whoever cannot be warned must not go on
			return fmt.Errorf("guard: %w", err)
		case len(orders) > 0: // there may be more, so a deadline that has passed may not be the newest
			o := orders[len(orders)-orderSize:]
			group = int(binary.NativeEndian.Uint64(o))                            //nolint:gosec // as above
			deadline = driver.Instant(binary.NativeEndian.Uint64(o[orderGroup:])) //nolint:gosec // as above
		case deadline != 0 && clock.Now() >= deadline:
			killGroup(group)
			deadline = 0
		}
	}
}

// hurry binds the guard to a thread that runs before all others, where that is
// permitted (to root, mostly): it needs a few microseconds, and needs them in
// time. Nor does it wait for the collector's threads, which have no such right.
func hurry() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // nothing is allocated in the loop
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}, 0)
}

// receive reads what there is, waiting for at most a while for it.
func receive(fd int, b []byte, wait time.Duration) ([]byte, error) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // stdin
	n, err := unix.Poll(p, int((wait+time.Millisecond-1)/time.Millisecond))
	switch {
	case errors.Is(err, unix.EINTR), err == nil && n == 0:
		return nil, nil
	case err != nil:
		return nil, err
	}
	n, err = unix.Read(fd, b)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil, nil
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	}
	return b[:n], nil
}

// killGroup kills a group. If the supervisor has not sent its number, it died or was stopped
// right after it had started the command, or before.
func killGroup(group int) {
	if group == 0 {
		killBadged(badgeOf(os.Getpid()))
	}
	kill9(group)
}

// killBadged kills the groups of the processes that have something in their
// environment.
func killBadged(badge string) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return // the pattern is good
	}
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), badge) {
			continue // it has gone, or is somebody else's
		}
		if f := stat(filepath.Base(filepath.Dir(path))); f != nil {
			if group, err := strconv.Atoi(string(f[2])); err == nil && group != unix.Getpgrp() {
				kill9(group)
			}
		}
	}
}

// kill9 kills a group. One is only what a supervisor has told us of.
func kill9(group int) {
	if group > 1 {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}
