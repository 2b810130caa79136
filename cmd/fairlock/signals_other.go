//go:build !unix

package main

import "syscall"

// signals returns the signals that --signal accepts by name.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}
}
