package fairleaderelection

import (
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/fairlock/fairlock/session"
)

// errNotStopped is what HealthzAdaptor.Check returns.
var errNotStopped = errors.New("fairleaderelection: the leadership was lost, and the work of the leader has not ended")

// HealthzAdaptor is the health check of a candidate, in the place of leaderelection.HealthzAdaptor.
// Its Check is also a healthz.Checker of controller-runtime. The zero value is ready for
// Config.WatchDog. Its methods are safe for concurrent use.
type HealthzAdaptor struct {
	h atomic.Pointer[session.Hold] // with which the program acts as the leader; nil without
}

// Name returns the name of the check, which is that of client-go's.
func (*HealthzAdaptor) Name() string { return "leaderElection" }

// Check returns an error while the program acts as the leader although it leads no longer: its work
// has not ended in time, so the process should be killed. A candidate that waits is healthy. Check
// sends nothing and reads the clock, so it is right also after the process was stopped.
func (a *HealthzAdaptor) Check(*http.Request) error {
	h := a.h.Load()
	if h != nil && h.Remaining() <= 0 {
		return errNotStopped
	}
	return nil
}
