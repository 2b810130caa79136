package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// tie makes the command die with us, and its orphans ours.
func tie(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
	// It cannot fail since Linux 3.4. Without it orphans are init's, who reaps
	// them as well.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// ended says whether a child has ended, and leaves it unreaped.
func ended(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo == int32(unix.SIGCHLD)
		}
	}
}

// empty says that nothing of the group lives, the dead that are not reaped set
// aside: they may be others' to reap.
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

// living says whether a process is of the group and not dead.
func living(pid string, group int) bool {
	f := stat(pid)
	return f != nil && string(f[2]) == strconv.Itoa(group) && f[0][0] != 'Z' && f[0][0] != 'X'
}

// parent is the process that has that child, 0 if there is none.
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

// stat is what the kernel says of a process: state, parent, group and more; nil
// if it has gone.
func stat(pid string) [][]byte {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	// The name may hold anything; what follows its last parenthesis not.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 3 {
		return nil
	}
	return f
}

// stopSelf raises SIGSTOP in this thread: then the process has stopped before
// Tgkill returns.
func stopSelf() { _ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP) }
