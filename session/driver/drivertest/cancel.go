package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// cancel: a context ends, and the call returns at once and leaves nothing.
func cancel() []testCase {
	var all []testCase
	for _, c := range calls() {
		all = append(all, testCase{c.name + "ReturnsWhenCanceledAtEachRequest", func(w *fixture) { cancelEach(w, c, "") }})
		all = append(all, over(c.name+"ReturnsWhenCanceledAtEachRequestWith%v", fault.Retryable(), func(w *fixture, f fault.Kind) { cancelEach(w, c, f) })...)
		all = append(all, over(c.name+"ReturnsWhileCut%v", fault.Directions(), func(w *fixture, d fault.Direction) { cancelCut(w, c, d) })...)
	}
	return slices.Concat(all,
		over("OpenAndCloseReturnWhileCut%v", fault.Directions(), openCloseWhileCut),
		over("WatchesCancelsAndAbandonReturnAtOnceWhileCut%v", fault.Directions(), noContextWhileCut),
		[]testCase{
			{"AnEndedContextLeavesNothing", cancelBefore},
			{"AContextThatEndsAfterwardsChangesNothing", cancelAfter},
			{"AJoinBehindAnotherReturnsWhenCanceledAtEachRequest", cancelBehind},
			{"AnUnknownOutcomeIsPending", unknownIsPending},
			{"SettleDeletesTheOthersOfAnEntryThatIsGone", settleOthers},
			{"ASettleThatIsCanceledIsFinishedByTheNext", settleCanceled},
			{"SettleIsIdempotentAndOutlivesTheSession", settleOver},
		},
	)
}

// call is a method that takes a context.
type call struct {
	name string
	kind fault.Op // of the faults that it must survive as well

	// call is it, on an entry of the session in the queue "kept".
	call func(ctx context.Context, o *owner, kept driver.Ref) error

	// finish brings what was canceled to its end, and undoes it.
	finish func(o *owner, kept driver.Ref, err error)
}

// What brings a call to its end has a context of its own.
//
//nolint:contextcheck // see above
func calls() []call {
	nothing := func(*owner, driver.Ref, error) {}
	return []call{
		{"Join", fault.Join, func(ctx context.Context, o *owner, _ driver.Ref) error {
			js, err := o.Join(ctx, kept()...)
			if err == nil {
				o.leaveWith(erase(joinedRefs(js))...)
			}
			return err
		}, func(o *owner, _ driver.Ref, err error) {
			o.w.settle(err)
			o.w.counts(0, fmt.Sprintf("nothing is left of a Join: %v", err))
			assert.Empty(o.w.t, o.value("ledger")+o.value("slot/0"), "nor of its records: %v", err)
		}},
		{"Leave", fault.Leave, func(ctx context.Context, o *owner, kept driver.Ref) error {
			_, err := o.Leave(ctx, driver.LeaveRequest{Ref: kept})
			return err
		}, func(o *owner, kept driver.Ref, _ error) {
			o.leave(kept) // whatever became of the first call
			assert.False(o.w.t, o.sees(kept))
		}},
		{"Evict", fault.Leave, func(ctx context.Context, o *owner, kept driver.Ref) error {
			_, err := o.Leave(ctx, driver.LeaveRequest{Ref: kept, Any: true})
			return err
		}, func(o *owner, kept driver.Ref, _ error) {
			o.fresh(kept.Queue)
			o.sees(kept)
			o.leaveWith(way("Evict").request(kept)) // whatever became of the first call
		}},
		{"Update", fault.Update, func(ctx context.Context, o *owner, kept driver.Ref) error {
			_, err := o.Update(ctx, driver.UpdateRequest{Queue: kept.Queue, Entry: kept, Data: []byte("new"), Detail: []byte("new")})
			return err
		}, func(o *owner, kept driver.Ref, _ error) {
			o.write(kept, "newer")
			assert.Equal(o.w.t, "newer", string(o.only(kept.Queue).Data))
		}},
		{"Read", fault.Read, func(ctx context.Context, o *owner, kept driver.Ref) error {
			_, err := o.Read(ctx, driver.ReadRequest{Queue: kept.Queue, Upto: kept.Place, Marks: true, Detail: true, Records: []string{"limit", "slot/"}})
			return err
		}, nothing},
		{"Names", fault.Names, func(ctx context.Context, o *owner, _ driver.Ref) error {
			_, err := o.Names(ctx, "")
			return err
		}, nothing},
	}
}

func (o *owner) keep() driver.Ref {
	o.w.t.Helper()
	req := valued("old")
	req.Queue = "kept"
	return o.joinWith(req).Entry.Ref
}

// cancelEach ends the context at the first request of a call, then of another at the
// second, and so on until a call makes fewer requests. A call whose request is lost repeats
// the same requests as long as it is not answered, so it is ended at the first few only.
func cancelEach(w *fixture, c call, f fault.Kind) {
	most := 20
	if w.h.Sparse {
		most = 8
	}
	o := w.open()
	for n := 1; ; n++ {
		kept := o.keep()
		ctx, stop := context.WithTimeout(w.ctx, w.bound())
		count := 0
		o.c.OnRequest(func() {
			count++
			if count == n && n <= most {
				stop()
			}
		})
		if f != "" {
			o.c.Inject(c.kind, f)
		}
		var err error
		w.prompt(o.c, fmt.Sprintf("%s canceled at request %d", c.name, n), ctx.Done(), func() { err = c.call(ctx, o, kept) })
		o.c.OnRequest(nil)
		stop()
		c.finish(o, kept, err)
		o.leave(kept)
		if count < n || n > most {
			require.NoError(w.t, err, "it was not canceled")
			return
		}
	}
}

// cancelBehind: a join of a queue in use may read the queue when its entry and its records
// are there already.
//
//nolint:contextcheck // as in calls
func cancelBehind(w *fixture) {
	w.open().join(queue)
	c := calls()[0]
	c.finish = func(o *owner, _ driver.Ref, err error) {
		w.settle(err)
		for i, name := range queues() {
			w.count(map[bool]int{true: 1}[i == 0], name, fmt.Sprintf("nothing is left of a Join: %v", err))
		}
		assert.Empty(w.t, o.value("ledger")+o.value("slot/0"), "nor of its records: %v", err)
	}
	cancelEach(w, c, "")
}

// errOfCaller is the cause of a caller's context. It may be an error of another call.
var errOfCaller = fmt.Errorf("the caller's own: %w, %w, %w", driver.ErrGone, driver.ErrSessionOver, driver.ErrClosed)

// cancelCut ends the context of a call while the network is cut.
func cancelCut(w *fixture, c call, d fault.Direction) {
	o := w.open()
	kept := o.keep()
	o.c.Cut(d)
	ctx, stop := context.WithTimeoutCause(w.ctx, w.short/50, errOfCaller)
	defer stop()
	var err error
	w.prompt(o.c, c.name, ctx.Done(), func() { err = c.call(ctx, o, kept) })
	assert.ErrorIs(w.t, err, driver.ErrUnavailable, "no server answered")
	assert.NotErrorIs(w.t, err, errOfCaller, "%s: a caller's cause is no answer", c.name)
	o.c.Heal()
	c.finish(o, kept, err)
}

func cancelBefore(w *fixture) {
	o := w.open()
	kept := o.keep()
	ctx, stop := context.WithCancelCause(w.ctx)
	stop(errOfCaller)
	for _, c := range calls() {
		var err error
		w.prompt(o.c, c.name, ctx.Done(), func() { err = c.call(ctx, o, kept) })
		require.Error(w.t, err, "%s with an ended context", c.name)
		assert.NotErrorIs(w.t, err, errOfCaller, "%s: a caller's cause is no answer", c.name)
		w.settle(err)
	}
	w.prompt(o.c, "Open", ctx.Done(), func() {
		_, err := w.tryOpen(ctx, o.c, false)
		assert.Error(w.t, err, "Open with an ended context")
	})
	w.counts(0, "nothing was joined")
}

func cancelAfter(w *fixture) {
	o := w.open()
	ctx, stop := context.WithCancel(w.ctx)
	js, err := o.Join(ctx, plain())
	require.NoError(w.t, err)
	stop()
	time.Sleep(w.short / 4) // for whatever might follow the context's end
	assert.True(w.t, o.sees(js[0].Entry.Ref), "an entry does not depend on the context of its join")
}

func openCloseWhileCut(w *fixture, d fault.Direction) {
	w.expires()
	w.attend(queue)
	o := w.open()
	o.join(queue)
	c := w.client()
	c.Cut(d)
	ctx := w.within(w.short / 50)
	w.prompt(c, "Open", ctx.Done(), func() {
		_, err := w.tryOpen(ctx, c, false)
		assert.Error(w.t, err, "Open while cut off: %s", d)
	})
	o.c.Cut(d)
	ctx = w.within(w.short / 50)
	w.prompt(o.c, "Close", ctx.Done(), func() {
		assert.Error(w.t, o.close(ctx), "Close while cut off: %s", d)
	})
	w.becomes(0, queue, "entries go when the TTL has passed, at the latest")
}

// noContextWhileCut: what takes no context returns at once, whatever the network does.
func noContextWhileCut(w *fixture, d fault.Direction) {
	o, other := w.open(), w.open()
	ended := make(chan struct{})
	close(ended)
	own, ahead := o.join(queue).Entry.Ref, other.join(queue).Entry.Ref
	targets := []driver.Target{own.Target(), ahead.Target(), ofQueue(queue), ofHolders(), ofRecord("limit")}
	var stops []func()
	for _, t := range targets {
		_, stop := o.armed("armed before the cut", t)
		stops = append(stops, stop)
	}
	o.c.Cut(d)
	for i, t := range targets {
		w.prompt(o.c, "cancel of a watch from before the cut", ended, stops[i])
		var stop func()
		w.prompt(o.c, "Watch", ended, func() { _, stop = o.watch("begun during the cut", t) })
		w.prompt(o.c, "cancel of a watch begun during the cut", ended, stop)
		o.watch("open at Abandon", t)
	}
	w.prompt(o.c, "Renew", ended, o.Renew)
	w.prompt(o.c, "Info", ended, func() { o.c.Backend().Info() })
	w.prompt(o.c, "CheckName", ended, func() { assert.NoError(w.t, o.c.Backend().CheckName("a")) })
	w.prompt(o.c, "Abandon", ended, o.Abandon)
	w.prompt(o.c, "Watch after Abandon", ended, func() {
		_, stop := o.watch("after Abandon", own.Target())
		stop()
	})
}

// unknownIsPending: the entry was made and the reply was lost, so an error that means
// "not done" is a guess.
func unknownIsPending(w *fixture) {
	o := w.open()
	err := o.joinUnanswered()
	w.counts(1, "the service has done it")
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p)

	short := w.within(w.short / 50)
	w.prompt(o.c, "Settle", short.Done(), func() {
		assert.Error(w.t, p.Settle(short), "not certain while the replies are cut")
	})
	o.c.Heal()
	w.settle(err)
	o.nothing(0, "settled")
}

// settleCanceled: what deletes the entries may be lost with the Settle that has sent it.
func settleCanceled(w *fixture) {
	o := w.open()
	for n := 1; ; n++ {
		err := o.joinUnanswered()
		o.c.Heal()
		var p *driver.PendingError
		require.ErrorAs(w.t, err, &p)
		ctx, stop := context.WithCancel(w.soon())
		count := 0
		o.c.OnRequest(func() {
			count++
			if count == n {
				stop()
			}
		})
		for _, kind := range []fault.Op{fault.Settle, fault.Leave} { // one or the other, by the backend
			o.c.Inject(kind, fault.BrokenRequest)
		}
		settled := p.Settle(ctx)
		o.c.OnRequest(nil)
		stop()
		w.settle(err)
		o.nothing(0, fmt.Sprintf("settled again: %v", settled))
		if count < n {
			require.NoError(w.t, settled, "it was not canceled")
			return
		}
	}
}

// joinUnanswered returns the error of a join that the service has done, and leaves the
// replies cut.
func (o *owner) joinUnanswered() (err error) {
	o.w.t.Helper()
	o.uses()
	joined := func() bool { return o.w.svc.Count(o.w.t, queue) == 1 }
	o.unanswered(fault.Join, joined, func(ctx context.Context) { _, err = o.Join(ctx, kept()...) })
	return err
}

// settleOthers: an operator deletes one entry of a join whose outcome is not known to its
// session. Nothing but Settle would ever delete the others.
func settleOthers(w *fixture) {
	o, by := w.open(), w.open()
	for _, i := range []int{1, 0} {
		err := o.joinUnanswered()
		var p *driver.PendingError
		require.ErrorAs(w.t, err, &p)
		name := queues()[i]
		by.fresh(name)
		w.svc.Delete(w.t, by.only(name).Ref)
		o.c.Heal()
		w.settle(err)
		for _, other := range queues() {
			w.undone(0, other, "settled, after the deletion of the entry of "+name)
		}

		o.leave(o.joinQueues(queues()...)...)
		w.counts(0, "the queues work as before")
	}
}

func settleOver(w *fixture) {
	by := w.open()
	for _, e := range endings()[1:3] { // of the session
		o := w.open()
		err := o.joinUnanswered()
		require.Error(w.t, err)
		o.c.Heal()
		e.end(o, driver.Ref{})
		w.settle(err)
		w.settle(err)
		w.counts(0, "settled after "+e.name)
		by.fresh(queue)
		assert.Equal(w.t, "mine", by.value("ledger"), "another client may have seen it since the entry was gone")
		assert.Empty(w.t, by.value("slot/0"), "it is bound")
		by.set("ledger", "")
	}
}
