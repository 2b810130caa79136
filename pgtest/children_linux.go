package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// children returns the processes of a server but its postmaster: those that work in its data
// directory. So they are found also when the postmaster has died.
func children(postmaster int, data string) []int {
	var all []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		dir, err := os.Readlink(link)
		if err != nil || dir != data {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && pid != postmaster {
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

// state returns the letter of a process's state, "-" if there is no such process. See proc(5).
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "-"
	}
	_, rest, found := strings.Cut(string(text), ") ")
	if !found {
		return "-"
	}
	return rest[:1]
}

func ended(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
