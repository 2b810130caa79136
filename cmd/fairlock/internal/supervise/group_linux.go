package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs makes the kernel kill the command when we die, and makes its orphans our
// children.
func dieWithUs(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
	// It cannot fail since Linux 3.4. Without it, init becomes the parent of orphans, and
	// reaps them as well.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// ended reports whether a child has ended. It does not reap the child.
func ended(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo == int32(unix.SIGCHLD)
		}
	}
}

// empty reports whether no process of the group lives. Zombies do not count: they may be
// children of other processes.
func (g *group) empty() bool {
	all, err := os.ReadDir("/proc")
	if err != nil || len(all) == 0 { // not mounted: as elsewhere
		return unix.Kill(-g.id, 0) == unix.ESRCH
	}
	for _, d := range all {
		if _, err := strconv.Atoi(d.Name()); err == nil && living(d.Name(), g.id) {
			return false
		}
	}
	return true
}

// living reports whether a process belongs to the group and is not dead.
func living(pid string, group int) bool {
	f := stat(pid)
	return f != nil && string(f[2]) == strconv.Itoa(group) && f[0][0] != 'Z' && f[0][0] != 'X'
}

// parent returns the parent of a process, 0 if there is none.
func parent(pid int) int {
	f := stat(strconv.Itoa(pid))
	if f == nil {
		return 0
	}
	p, err := strconv.Atoi(string(f[1]))
	if err != nil {
		return 0
	}
	return p
}

// stat returns the fields of /proc/PID/stat from the state on: state, parent, group and
// more. It returns nil if the process is gone.
func stat(pid string) [][]byte {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	// The name can contain any characters, so the fields are those after the last ")".
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 3 {
		return nil
	}
	return f
}

// stopSelf raises SIGSTOP in this thread: then the process has stopped before
// Tgkill returns.
func stopSelf() { _ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP) }
