package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// finish ends what has not ended, checks that nothing is left in the queue, closes the
// clients, and collects the records.
func (tr *trial) finish(ctx context.Context) {
	tr.heal()
	for _, p := range tr.participants {
		if p != nil {
			p.release()
		}
	}
	tr.stopProcess(ctx)
	if tr.awaitEnds(ctx) {
		tr.checkEmpty(ctx)
	}
	order := tr.order(ctx) // before close, which ends the entries that are left
	tr.close()
	tr.collect(order)
}

func (tr *trial) heal() {
	for _, p := range tr.participants {
		if p != nil {
			p.c.Heal()
		}
	}
}

// stopProcess ends the holder's process.
func (tr *trial) stopProcess(ctx context.Context) {
	if tr.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if a, err := tr.process.Stop(ctx); err != nil {
		tr.miss("the process did not end: %v", err)
	} else {
		a.Stopped = true
		tr.record = &a
	}
}

// awaitEnds waits until every participant has finished. It ends the context of each
// that has not.
func (tr *trial) awaitEnds(ctx context.Context) bool {
	for _, p := range tr.participants {
		if p == nil || !p.started() || isClosed(p.done) {
			continue
		}
		p.end()
		if !await(ctx, p.done, timeout) {
			tr.violated("S6", fmt.Sprintf("client %d has not returned %s after its context ended, with a healthy network", p.id, timeout))
			return false
		}
	}
	return true
}

// checkEmpty checks that no entry is left in the queue (S5), while all sessions still
// exist.
func (tr *trial) checkEmpty(ctx context.Context) {
	began := Now()
	var entries []string
	err := untilSeen(ctx, leftoverTime, func(ctx context.Context) (bool, error) {
		now, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		if err == nil {
			entries = now
		}
		return err == nil && len(now) == 0, err
	})
	if err != nil && len(entries) > 0 {
		tr.violated("S5", fmt.Sprintf("%d entries are left %s after all clients have finished: %q", len(entries), time.Duration(Now()-began), entries))
	} else if err != nil {
		tr.void("the queue could not be read: %v", err)
	}
}

// close closes all clients.
func (tr *trial) close() {
	var wg sync.WaitGroup
	for _, p := range tr.participants {
		if p != nil {
			wg.Go(func() { _ = p.c.Close() }) // its session may be over, or its requests unanswered
		}
	}
	wg.Wait()
	for _, p := range tr.participants {
		if p != nil && p.started() {
			<-p.done // a closed client returns from its call
		}
	}
}

// order returns the changes of the queue, as the service recorded them.
func (tr *trial) order(ctx context.Context) []history.Change {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	order, err := tr.svc.Order(ctx, tr.lock, tr.queue.Name)
	if err != nil {
		tr.void("the service returned no order: %v", err)
	}
	return order
}

// collect collects the records of all participants, which have finished.
func (tr *trial) collect(order []history.Change) {
	h := &History{Lines: []history.Queue{tr.queue}, Order: map[string][]history.Change{tr.queue.Name: order}}
	for _, p := range tr.participants {
		if p != nil && p.started() {
			h.Attempts = append(h.Attempts, p.attempts()...)
		}
	}
	if tr.record != nil {
		h.Attempts = append(h.Attempts, *tr.record)
	}
	tr.History = h
	tr.Clients = len(tr.participants)
	tr.count(h.Attempts)
}
