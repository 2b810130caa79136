package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session/driver"
)

// update updates an entry, and takes in what the answer shows: driver.ErrGone means that the
// entry is lost, or another one of the same request, and then nothing is sent: all are about to
// leave. As the contract demands, calls about an entry are made one at a time. A Leave does not
// wait for an update, but ends it.
//
//	it returns                             the entry
//	nil                                    is changed
//	ErrGone                                is gone, and was not changed by this call
//	errLeaving, ErrDenied, ErrRefused      is not changed
//	*RefusedError                          is not changed, unless an earlier attempt comes late
//	any other error                        may be changed, now or later
//
// This call sets stopCall and reads Leaving in one step, and leave sets Leaving and calls stopCall in
// one step. So either this call finds that the entry leaves, or leave finds a call to end. What events
// have shown is counted before the request is sent: one that comes later may be newer than the answer.
func (es *entries) update(ctx context.Context, i int, req driver.UpdateRequest) (results []driver.Result, err error) {
	qs, en, q := es.qs, es.group.Entries[i], es.queues[i]
	select {
	case es.calling <- struct{}{}:
		defer func() { <-es.calling }()
	case <-ctx.Done():
		return nil, driver.ContextError(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	qs.mu.Lock()
	leaving, lost, events := en.Leaving(), es.group.Lost(), q.EventCount()
	es.stopCall = cancel
	qs.mu.Unlock()
	switch {
	case leaving:
		return nil, errLeaving
	case lost:
		return nil, driver.ErrGone
	}
	req.Queue, req.Entry = en.Queue, en.Ref
	results, err = qs.s.Update(ctx, req)
	qs.do(func() {
		switch {
		case err == nil:
			es.marked = es.marked || req.Marks.Has(driver.MarkAdmitted)
			q.Marked(en, req.Marks, events)
		case errors.Is(err, driver.ErrGone):
			q.Missing(en)
		case len(req.Ops) > 0:
			es.tied = true // the records may be changed late
		}
	})
	return results, err
}

// share makes the entry admit others of its kind.
func (es *entries) share(ctx context.Context) error {
	_, err := es.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkShared})
	return err
}

// write changes the value of the entry.
func (es *entries) write(ctx context.Context, value []byte) error {
	_, err := es.update(ctx, 0, driver.UpdateRequest{Data: value})
	return err
}

// holding takes in that the caller has its hold, and has what lasts done later: after a moment each
// entry is watched, and a hold of permits marked; after a second the time of the grant is stored.
// Most holds are over by then. The mutex is held.
func (es *entries) holding(h *Hold) {
	es.hold = h
	if es.group.Lost() { // since the call of failed: Lost found no hold to end
		es.endHold()
	}
	en := es.group.Entries[0]
	if en.Limited && en.Waited > 0 {
		// At once: where it had to wait, others may wait behind it, for the mark.
		es.qs.later(es.mark)
	}
	es.afterTimer(moment, func() {
		es.group.Guard()
		es.qs.later(es.mark)
		es.afterTimer(lasting, func() { es.qs.later(es.lasts) })
	})
}

// afterTimer has f called when d has passed, unless the hold is over by then. The mutex is held.
func (es *entries) afterTimer(d time.Duration, f func()) {
	es.noTimer()
	es.stopTimer = es.qs.after(d, func() {
		if !es.over() {
			f()
		}
	})
}

// over reports whether the entries leave, or are gone. The mutex is held.
func (es *entries) over() bool {
	en := es.group.Entries[0]
	return en.Leaving() || !en.Held()
}

// mark marks the entry of a hold of permits as one that holds, in the background: the one behind
// it waits for that.
func (es *entries) mark() {
	if !es.group.Entries[0].Limited {
		return
	}
	es.qs.t.Clean(func(ctx context.Context) error {
		es.qs.mu.Lock()
		done := es.marked || es.over()
		es.qs.mu.Unlock()
		if done {
			return nil
		}
		_, err := es.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkAdmitted})
		switch {
		case errors.Is(err, driver.ErrGone):
			return nil
		case driver.Incurable(err): // those behind wait longer than they must, until they read
			es.qs.e.cfg.Logger.Warn("fairlock: cannot record that permits were acquired", "name", es.rs[0].Name, "err", err)
			return nil
		}
		return err
	})
}

// lasts stores the time of the grant with the entries of a hold that has lasted for a second, for
// people and tools. That is optional: a release does not wait for it, and what the service refuses
// is not sent again.
func (es *entries) lasts() {
	var meta owner.Meta // the other fields are in the data
	if es.meta != nil {
		meta = *es.meta
	}
	meta.Granted = es.granted
	i := 0 // the job goes on with the entry whose request failed
	es.qs.t.Clean(func(ctx context.Context) error {
		for ; i < len(es.rs); i++ {
			_, err := es.update(ctx, i, driver.UpdateRequest{Detail: meta.Encode()})
			switch {
			case errors.Is(err, driver.ErrGone), errors.Is(err, errLeaving):
				return nil
			case err != nil && !driver.Incurable(err):
				return err
			}
		}
		return nil
	})
}

// The four ways to leave differ in which names they clear from the ledgers:
//
//	release  the work is done                     any name, also of a holder that died
//	drop     the caller has held nothing          its own
//	abandon  the hold was lost                    none
//	release, after an entry was lost meanwhile    none
//
// release leaves when the hold has done its work.
func (es *entries) release(ctx context.Context) error { return es.leave(ctx, clearAny) }

// clean drops the entries in the background.
func (es *entries) clean() { es.later(es.drop) }

// drop leaves for a request whose caller has held nothing. The ledgers keep what they
// recorded before.
func (es *entries) drop(ctx context.Context) error {
	if es.recorded {
		if err := es.records.settle(ctx); err != nil {
			return err
		}
	}
	return settled(es.leave(ctx, clearOwn))
}

// abandon deletes the remains of a hold that was lost. The holder's work may be half
// done, so the ledgers keep its name.
func (es *entries) abandon(ctx context.Context) error { return settled(es.leave(ctx, clearNone)) }

// settled ignores that an entry was already gone: an earlier attempt may have deleted it.
func settled(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// unclean reports whether one entry of the hold was lost before its Unlock, as the first call
// finds. Later another client may delete what MinHold keeps, and that does not count. The mutex is
// held.
func (es *entries) unclean() bool {
	if !es.released {
		es.released, es.died = true, es.group.Lost()
	}
	return es.died
}

// leave deletes all entries, with their records. It is idempotent. driver.ErrGone means that one
// was gone before. After any other error it is not known whether they are gone: call it again.
//
// The entries are marked as leaving before anything else, and stay so: from then on nothing grants
// them, and their end is no loss, also if this attempt sends nothing. What is sent is put together
// after the call before it has returned, because an update may have changed what the ledgers have.
func (es *entries) leave(ctx context.Context, how clearing) error {
	qs := es.qs
	qs.mu.Lock()
	for _, en := range es.group.Entries {
		en.Leaves()
	}
	es.noTimer()
	if es.stopCall != nil {
		es.stopCall()
	}
	qs.mu.Unlock()
	select {
	case es.calling <- struct{}{}:
		defer func() { <-es.calling }()
	case <-ctx.Done():
		return driver.ContextError(ctx)
	}
	n := len(es.rs)
	reqs, events := make([]driver.LeaveRequest, n), make([]uint64, n)
	left, gone := false, error(nil)
	qs.do(func() {
		left, gone = es.left, es.gone
		if how == clearAny && es.unclean() {
			how = clearNone // see abandon
		}
		for i, en := range es.group.Entries {
			reqs[i] = driver.LeaveRequest{Ref: en.Ref, First: en.ShowsFirst()}
			if es.recorded {
				reqs[i].Ops = es.records.undo(i, how)
			}
			events[i] = es.queues[i].EventCount()
			if !es.tied && !es.recorded {
				en.Passes()
			}
		}
	})
	if left {
		return gone
	}
	answers, err := qs.s.Leave(ctx, reqs...)
	qs.do(func() { err = es.leaveAnswered(answers, err, events) })
	return err
}

// leaveAnswered takes in the answer to a Leave, and returns what leave does. The mutex is held.
//
//	the answer for an entry          gone
//	Deleted, Unclear                 nil, unless the entry was lost before
//	WasGone, at the first attempt    driver.ErrGone
//	WasGone, after a lost answer     nil: the attempt before may have deleted it
//	an error                         is returned, and the next attempt asks again
func (es *entries) leaveAnswered(answers []driver.Left, err error, events []uint64) error {
	if err != nil {
		es.tried = true
		return err
	}
	es.left = true
	for i, en := range es.group.Entries {
		if answers[i] == driver.WasGone && !es.tried || en.Lost() {
			es.gone = driver.ErrGone
		}
		es.queues[i].Left(en, answers[i], events[i])
		es.queues[i].tidy()
	}
	return es.gone
}

// describeTimeout is how long a caller whose ctx has ended is kept for the sake of a
// better error, and of an entry that is gone when it returns.
const describeTimeout = 25 * time.Millisecond

// giveUp leaves the queues for a caller whose ctx has ended, and returns what was in the
// way. The deletion goes on in the background if it takes longer: no caller waits for a service that
// does not answer. Entries that are granted meanwhile leave all the same.
func (es *entries) giveUp(ctx context.Context) error {
	e := gaveUp(ctx)
	name, ahead := es.waitsIn()
	e.Ahead = ahead
	gone := make(chan struct{})
	es.later(func(ctx context.Context) error {
		if err := es.drop(ctx); err != nil {
			return err
		}
		close(gone)
		return nil
	})
	short, cancel := driver.WithTimeout(es.qs.t.Context(), es.qs.clock, describeTimeout)
	defer cancel()
	//nolint:contextcheck // ctx has ended, that is why this was called
	first := es.qs.firstEntry(short, name)
	if !es.own(first.Ref) { // its own may be the first by now
		e = es.qs.behind(e, first)
	}
	select {
	case <-gone:
	case <-short.Done():
	}
	return e
}

// own reports whether that is one of the entries.
func (es *entries) own(ref driver.Ref) bool {
	return slices.ContainsFunc(es.group.Entries, func(en *queue.Entry) bool { return en.Ref == ref })
}

// waitsIn returns the name of the first queue in which an entry waits, and how many are ahead of
// it there; the first of all queues and -1 if none waits. It reports to hooks what that one waits
// for.
func (es *entries) waitsIn() (name string, ahead int) {
	if es.hooks != nil {
		es.reportBlocker()
	}
	es.qs.mu.Lock()
	defer es.qs.mu.Unlock()
	en := es.group.Waiter()
	if en != nil {
		return en.Queue, en.Ahead()
	}
	return es.rs[0].Name, -1
}

// reportBlocker reports to hooks what the request waits for, or has waited for last.
func (es *entries) reportBlocker() {
	es.qs.mu.Lock()
	var blocker *driver.Entry
	b := es.group.Blocker()
	if b != nil {
		blocker = new(*b) // the picture's can get marks
	}
	es.qs.mu.Unlock()
	if blocker != nil {
		es.hooks.WaitsFor(blocker)
	}
}
