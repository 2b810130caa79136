//go:build unix

package pgtest

import "syscall"

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
