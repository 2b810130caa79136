package onetcd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fill makes every write of a process to a file fail, as a full disk does: the kernel
// limits its files to size 0, so that writes below their current size fail too (EFBIG). Go
// programs ignore the signal that comes with it. fill does not need root. etcd exits at its
// next write, and the other members continue.
func fill(pid int) error {
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 0}, nil)
}

// running reports whether a process exists. A process that has ended and was reaped does
// not.
func running(pid int) bool {
	return pid != 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
