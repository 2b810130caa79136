//go:build unix

package job

import "syscall"

// closeOnExec keeps a file from the command, so that its reader sees the end of file when
// this process ends.
func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
