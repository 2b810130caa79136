//go:build unix

package redistest

import "syscall"

// ownGroup makes a server and its children a group of processes.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends the group of a server that runs.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // it may just have ended
