//go:build !unix

package main

import "syscall"

// signals are those that a command can be told to stop with.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}
}
