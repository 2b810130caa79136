package progtest

import (
	"os"
	"os/signal"
	"syscall"
)

// ResetSignals gives the programs that a test starts the default action of every
// stopping signal. A process inherits the signals that its parent ignores: under
// nohup, the programs would ignore SIGHUP. A signal that this process handles has
// its default action again in a child. TestMain calls ResetSignals before it starts
// anything.
func ResetSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
