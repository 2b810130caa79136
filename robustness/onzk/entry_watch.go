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

// entryWatch watches entries until they are deleted.
type entryWatch struct {
	admin *admin
	ctx   context.Context //nolint:containedctx // of its goroutines; close ends it
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	deleted map[string]history.Instant // 0 while the entry exists
}

func newEntryWatch(a *admin) *entryWatch {
	e := &entryWatch{admin: a, deleted: map[string]history.Instant{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// deletedAt returns when an entry was observed to be deleted, 0 if it was not. The entry is
// watched from the first call on.
func (e *entryWatch) deletedAt(entry string) history.Instant {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, known := e.deleted[entry]
	if !known {
		e.deleted[entry] = 0
		e.wg.Go(func() { e.watch(entry) }) // ends with the entry, or with close
	}
	return at
}

// watch returns when an entry is deleted. If its ZooKeeper watch breaks, it sets another one. A
// writer that becomes a reader is deleted and created again in one transaction, so watch reads the
// entry again after a deletion.
func (e *entryWatch) watch(entry string) {
	var deleted history.Instant // when the last deletion event arrived
	for {
		changed, err := retry(e.ctx, e.admin, func(c *zk.Conn) (<-chan zk.Event, error) {
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
	e.deleted[entry] = deleted
}

func (e *entryWatch) close() {
	e.stop()
	e.wg.Wait()
}
