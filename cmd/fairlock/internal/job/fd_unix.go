//go:build unix

package job

import "syscall"

// keep keeps a file from the command, so that who reads sees its end with ours.
func keep(fd int) { syscall.CloseOnExec(fd) }
