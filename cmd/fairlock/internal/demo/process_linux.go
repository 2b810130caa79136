package demo

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr has the kernel kill a child whose parent is gone.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped asks the kernel whether a child is stopped. It leaves the answer
// where it is: the child is reaped elsewhere.
func stopped(p *process) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == int32(unix.SIGCHLD)
}
