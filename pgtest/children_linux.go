package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// children returns the processes of a server but its postmaster: its children, and those that work
// in its data directory, which are left when the postmaster has died. Root may not see where
// another user's processes work: a container often takes that away. The postmaster is 0 if it has
// died: its number may be another process's.
func children(postmaster int, data string) []int {
	var all []int
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == postmaster {
			continue
		}
		dir, _ := os.Readlink(filepath.Join(folder, "cwd"))
		if dir == data || postmaster != 0 && parent(pid) == postmaster {
			all = append(all, pid)
		}
	}
	return all
}

// stop returns when the process is stopped or has ended.
func stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return ended(err)
	}
	for !strings.Contains("TZX-", state(pid)) {
		<-time.After(time.Millisecond)
	}
	return nil
}

// waitGone returns when the process has ended.
func waitGone(pid int) {
	for !strings.Contains("ZX-", state(pid)) {
		<-time.After(time.Millisecond)
	}
}

// state returns the letter of a process's state, "-" if there is no such process.
func state(pid int) string { return stat(pid)[0] }

// parent returns the parent of a process, -1 if there is no such process.
func parent(pid int) int {
	parent, err := strconv.Atoi(stat(pid)[1])
	if err != nil {
		return -1
	}
	return parent
}

// stat returns the fields of a process from the state on, "-" for the first two if there is no such
// process. See proc(5).
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before that may have spaces
	if len(fields) < 2 {
		return []string{"-", "-"}
	}
	return fields
}

func ended(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
