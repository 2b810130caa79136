package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// reapOrphans reaps our children that have ended, except for those in kept and those in our
// own process group: their starters in this process, or before it (exec), wait for them.
// The others are orphans that have left the command's group, such as daemons.
func reapOrphans(kept ...int) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return // the pattern is good
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may be gone, and its children have moved
		for f := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(f)
			if err != nil || slices.Contains(kept, pid) {
				continue
			}
			if g, err := unix.Getpgid(pid); err == nil && g != unix.Getpgrp() {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // most live
			}
		}
	}
}

// empty reports whether no process of the group lives. Zombies do not count: they may be
// children of other processes.
//
// The list of processes is no snapshot: it can lack the child of a process that forked and
// exited meanwhile. But such a child becomes ours at once, and the kernel knows our children
// of the group. Not covered: the same below a living process that has left the group.
func (g *group) empty() bool {
	if g.hasChild() {
		return false
	}
	all, err := os.ReadDir("/proc")
	if err != nil || len(all) == 0 { // not mounted: as elsewhere
		return unix.Kill(-g.id, 0) == unix.ESRCH
	}
	return !slices.ContainsFunc(all, func(d os.DirEntry) bool { return living(d.Name(), g.id) })
}

// hasChild reports whether a child of ours in the group lives. The kernel finds no child to
// wait for if all of them are dead: we do not wait for deaths.
func (g *group) hasChild() bool {
	for {
		err := unix.Waitid(unix.P_PGID, g.id, nil, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// refuses returns a living process of the group that we may not signal, 0 if there is none.
func (g *group) refuses() int {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, d := range all {
		if pid, err := strconv.Atoi(d.Name()); err == nil && living(d.Name(), g.id) && unix.Kill(pid, 0) == unix.EPERM {
			return pid
		}
	}
	return 0
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
