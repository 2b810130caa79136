package supervise

import (
	"crypto/rand"
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

// The layout of an order to the guard; the newest order counts. It has the group to kill,
// 0 if that has no number yet, and the deadline on the clock of the machine. A deadline
// of 0 means that the guard kills only when the pipe ends.
const (
	orderGroup    = 8
	orderDeadline = 8
	orderSize     = orderGroup + orderDeadline // less than PIPE_BUF, so a write is atomic
)

// guard is the process that kills the group if this one cannot. A nil guard does nothing.
type guard struct {
	pid  int
	mark string          // the variable that the command has, see marker
	pipe int             // its stdin; it ends with this process, whatever ends that
	sent [orderSize]byte // the newest order
}

// startGuard starts a guard. The guard has a process group of its own, so no typed signal
// and no signal to our group reaches it. It stays in our session: the kernel divides
// processor time among sessions first (sched_autogroup). In a session of its own, a
// guard under load waited for ten seconds while the command ran.
func startGuard(argv []string) (*guard, error) {
	if len(argv) == 0 {
		return nil, nil
	}
	// A write must not block if the guard is stopped, and the command must not inherit the
	// pipe.
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
	mark := markVariable + "=" + rand.Text()
	if err == nil {
		// Not by its path: the file there may be a newer version by now.
		proc, err = os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
			Dir: "/", Env: append([]string{mark}, os.Environ()...), Files: []*os.File{in, null, null}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if err != nil {
		_ = unix.Close(p[1])
		return nil, fmt.Errorf("start guard: %w", err)
	}
	g := &guard{pid: proc.Pid, mark: mark, pipe: p[1]}
	_ = proc.Release()
	return g, nil
}

// markVariable has a random value in the environment of the guard, of the command and of all
// that it starts: a pid would come again, and daemons keep their environment.
const markVariable = "FAIRLOCK_GUARD"

// marker is that variable. By it the guard finds the group if this process dies, or is
// stopped, before it has sent the number.
func (g *guard) marker() []string {
	if g == nil {
		return nil
	}
	return []string{g.mark}
}

// send sends the guard the group to kill, and the deadline.
func (g *guard) send(group int, deadline driver.Instant) {
	if g == nil || g.pipe < 0 {
		return
	}
	var o [orderSize]byte
	binary.NativeEndian.PutUint64(o[:], uint64(group))              //nolint:gosec // a pid
	binary.NativeEndian.PutUint64(o[orderGroup:], uint64(deadline)) //nolint:gosec // since the machine was started
	if o == g.sent {
		return
	}
	if n, err := unix.Write(g.pipe, o[:]); err == nil && n == orderSize {
		g.sent = o
	}
}

// number returns the pid of the guard, 0 if there is none.
func (g *guard) number() int {
	if g == nil {
		return 0
	}
	return g.pid
}

// end ends the guard before it does anything.
func (g *guard) end() {
	if g == nil || g.pipe < 0 {
		return
	}
	_ = unix.Kill(g.pid, unix.SIGKILL)
	for {
		_, err := unix.Wait4(g.pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(g.pipe)
	g.pipe = -1
}

// Guard is the main function of a guard. It reads orders from in. It kills the group when
// in ends, or at the deadline, and returns when in has ended. It runs in a process of
// its own, which ignores signals from then on.
func Guard(in *os.File) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE)
	// So that "killall -9 fairlock" does not kill the guard: that is when it is needed.
	_ = os.WriteFile("/proc/self/comm", []byte("lock-guard"), 0)
	raisePriority()
	defer runtime.UnlockOSThread()
	clock := driver.SystemClock()
	read := make([]byte, 64*orderSize)
	fd, group := int(in.Fd()), 0
	var deadline driver.Instant
	for {
		wake := maxWait
		if deadline != 0 {
			wake = max(0, min(wake, deadline.Sub(clock.Now())))
		}
		orders, err := receive(fd, read, wake)
		switch {
		case errors.Is(err, io.EOF):
			killGroup(group)
			return nil
		case err != nil:
			kill9(group) // without orders the guard cannot know a later deadline
			return fmt.Errorf("guard: %w", err)
		case len(orders) > 0: // more may wait, so a deadline that has passed may not be the newest
			o := orders[len(orders)-orderSize:]
			group = int(binary.NativeEndian.Uint64(o))                            //nolint:gosec // as above
			deadline = driver.Instant(binary.NativeEndian.Uint64(o[orderGroup:])) //nolint:gosec // as above
		case deadline != 0 && clock.Now() >= deadline:
			killGroup(group)
			deadline = 0
		}
	}
}

// raisePriority binds the guard to a thread with a real-time priority, where that is
// permitted (mostly to root): the guard needs only a few microseconds, but in time. It
// turns off the garbage collector, whose threads do not have that priority.
func raisePriority() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // nothing is allocated in the loop
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}, 0)
}

// receive reads the orders that have arrived. It waits for one for at most wait.
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

// killGroup kills a group. If the supervisor has not sent the number, it died or was
// stopped right after it started the command, or before.
func killGroup(group int) {
	if group == 0 {
		killMarked(markVariable + "=" + os.Getenv(markVariable)) // the first, if there are several
	}
	kill9(group)
}

// killMarked kills the groups of the processes that have the marker in their environment.
//
// It is tempting to leave this to PR_SET_PDEATHSIG. But that kills only the command, and a
// child of it was seen to live on after a supervisor that died under load. And it kills
// nothing while the supervisor is stopped, so the command would run on past the deadline.
func killMarked(marker string) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return // the pattern is good
	}
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), marker) {
			continue // the process is gone, or does not have the marker
		}
		f := stat(filepath.Base(filepath.Dir(path)))
		if f != nil {
			if group, err := strconv.Atoi(string(f[2])); err == nil && group != unix.Getpgrp() {
				kill9(group)
			}
		}
	}
}

// kill9 kills a group. 0 is none yet, and 1 would mean all processes.
func kill9(group int) {
	if group > 1 {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}
