package progtest

import (
	"os"
	"syscall"
)

// Code returns how a program ended, as a shell reports it: its exit code, or 128 plus the
// number of the signal that ended it.
func Code(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}
