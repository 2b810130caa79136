//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// ReapOrphans reaps the orphans that become our children, until stop is called: this
// process may be process 1 of a container. It must not overlap with Run, which reaps too,
// nor with other children of ours that are not in our process group.
func ReapOrphans() (stop func()) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for {
			reapOrphans()
			select {
			case <-died:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(died)
		close(quit)
		<-done
	}
}
