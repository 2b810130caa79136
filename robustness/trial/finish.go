package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// finish ends what has not ended, checks that nothing is left in the queue, closes the
// clients, and collects the records.
func (tr *trial) finish(ctx context.Context) {
	tr.heal()
	for _, p := range tr.all() {
		if p != nil {
			p.release()
		}
	}
	tr.stopProcess(ctx)
	if tr.awaitEnds(ctx) {
		tr.checkEmpty(ctx)
	}
	order := tr.order(ctx) // before close, which ends the entries that are left
	if tr.gone != 0 {
		held := tr.judged().attempt()
		tr.judgeGone(held, tr.next().attempt(), goneAt(order, held.Place, tr.gone))
	}
	tr.close(ctx)
	tr.collect(order)
}

func (tr *trial) heal() {
	for _, p := range tr.all() {
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
	for _, p := range tr.all() {
		if p == nil || !p.started() || isClosed(p.done) {
			continue
		}
		p.end()
		if !await(context.WithoutCancel(ctx), p.done, timeout) { // also if the round is over
			tr.violated("S6", fmt.Sprintf("client %d has not returned %s after its context ended, with a healthy network", p.id, timeout))
			return false
		}
	}
	return true
}

// checkEmpty checks that no entry is left in the queue (S5), while all sessions still
// exist.
func (tr *trial) checkEmpty(ctx context.Context) {
	entries, err := leftIn(ctx, tr.svc, tr.lock, tr.queue.Name, tr.meter)
	if err != nil {
		tr.void("the queue could not be read: %v", err)
	} else if len(entries) > 0 {
		tr.violated("S5", fmt.Sprintf("%d entries are left %s after all clients have finished: %q", len(entries), leftoverTime, entries))
	}
}

// leftIn waits until a queue is empty, and returns the entries that are still there after
// leftoverTime, not counting the time in which nothing ran. Only a read that began after that
// shows that they are.
func leftIn(ctx context.Context, svc Service, lock, queue string, meter stallMeter) (entries []string, err error) {
	since := Now()
	err = untilSeen(ctx, leftoverTime+timeout, func(ctx context.Context) (bool, error) {
		began := Now()
		entries, err = svc.Entries(ctx, lock, queue)
		if err != nil {
			return false, err
		}
		entries = swept(svc, entries)
		return len(entries) == 0 || time.Duration(began-since) > leftoverTime+meter.stalls(since, began), nil
	})
	return entries, err
}

// close closes all clients, and waits for their calls, which return when the client is closed.
// A call that hangs does not hang the trial: it is judged by what is recorded of it.
func (tr *trial) close(ctx context.Context) {
	var clients []Client
	for _, p := range tr.all() {
		if p != nil && !slices.Contains(clients, p.c) {
			clients = append(clients, p.c)
		}
	}
	if !closeAll(ctx, clients) {
		tr.miss("the clients were not closed within %s", timeout)
	}
	for _, p := range tr.all() {
		if p != nil && p.started() && !await(context.WithoutCancel(ctx), p.done, timeout) {
			tr.violated("S6", fmt.Sprintf("client %d has not returned %s after it was closed", p.id, timeout))
		}
	}
}

// closeAll closes clients, and reports whether all calls of Close have returned in time.
func closeAll(ctx context.Context, clients []Client) bool {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { _ = c.Close() }) // its session may be over, or its requests unanswered
	}
	closed := make(chan struct{})
	go func() { // ends with the last Close
		defer close(closed)
		wg.Wait()
	}()
	return await(context.WithoutCancel(ctx), closed, timeout)
}

// order returns the changes of the queue, as the service recorded them.
func (tr *trial) order(ctx context.Context) []history.Change {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	order, err := tr.svc.Order(ctx, tr.lock, tr.queue.Name)
	tr.orderless = errors.Is(err, errors.ErrUnsupported)
	if err != nil && !tr.orderless {
		tr.void("the service returned no order: %v", err)
	}
	return order
}

// attempts returns the records of all participants that have started.
func (tr *trial) attempts() (all []history.Attempt) {
	for _, p := range tr.all() {
		if p != nil && p.started() {
			all = append(all, p.attempts()...)
		}
	}
	return all
}

// collect collects the records of all participants.
func (tr *trial) collect(order []history.Change) {
	h := &History{Queues: []history.Queue{tr.queue}, Attempts: tr.attempts(), Order: map[string][]history.Change{tr.queue.Name: order}}
	if tr.record != nil {
		h.Attempts = append(h.Attempts, *tr.record)
	}
	if tr.orderless || tr.kind.breaks != nil && tr.kind.breaks.Forgets {
		h.Order = nil
	}
	tr.History = h
	tr.Clients = len(tr.all())
	tr.count(h.Attempts)
}
