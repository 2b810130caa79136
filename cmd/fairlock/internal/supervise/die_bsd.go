//go:build unix && !linux

package supervise

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Die ends this process by a signal, as a program without a handler ends. With group, the
// other processes of our group get the signal too. Die returns after a SIGQUIT, to which
// Go's runtime gives another meaning.
func Die(sig syscall.Signal, group bool) {
	whom := unix.Getpid()
	if group {
		whom = 0
	}
	if sig == syscall.SIGQUIT {
		signal.Ignore(sig)
	} else {
		signal.Reset(sig)
	}
	_ = unix.Kill(whom, sig)
}
