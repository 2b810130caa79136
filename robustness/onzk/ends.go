package onzk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// ends watches entries until they are gone.
type ends struct {
	admin *admin
	ctx   context.Context //nolint:containedctx // of its goroutines; close ends it
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu   sync.Mutex
	gone map[string]history.Instant // 0 while it is there
}

func newEnds(a *admin) *ends {
	e := &ends{admin: a, gone: map[string]history.Instant{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// of is when an entry was seen to be gone, 0 if it has not been. It is looked at
// from the first call on.
func (e *ends) of(entry string) history.Instant {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, known := e.gone[entry]
	if !known {
		e.gone[entry] = 0
		e.wg.Go(func() { e.watch(entry) }) // ends with the entry, or with close
	}
	return at
}

// watch returns when an entry is gone. What breaks the watch does not break it. A writer
// that becomes a reader is deleted and made anew at once, so a deletion is looked after.
func (e *ends) watch(entry string) {
	var deleted history.Instant // when the last event told of a deletion
	for {
		changed, err := insist(e.ctx, e.admin, func(c *zk.Conn) (<-chan zk.Event, error) {
			_, _, changed, err := c.GetW(entry)
			return changed, err
		})
		if errors.Is(err, zk.ErrNoNode) {
			break
		}
		if err != nil {
			return
		}
		deleted = 0
		var ev zk.Event
		select {
		case ev = <-changed:
		case <-e.ctx.Done():
			return
		}
		if ev.Type == zk.EventNodeDeleted {
			deleted = trial.Now()
			continue
		}
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if deleted == 0 {
		deleted = trial.Now()
	}
	e.gone[entry] = deleted
}

func (e *ends) close() {
	e.stop()
	e.wg.Wait()
}
