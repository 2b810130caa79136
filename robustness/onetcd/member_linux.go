package onetcd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fill lets every write of a process to a file fail, as a full disk does: the
// kernel allows its files no size, and writing within them fails too (EFBIG). Go
// programs ignore the signal that comes with it. It needs no root. etcd ends itself
// at the first thing that it has to write, and the others go on.
func fill(pid int) error {
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 0}, nil)
}

// running says whether there is a process, and not only what is left of it.
func running(pid int) bool {
	return pid != 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
