package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// lost: one request or one reply is lost, and the backend finds out what happened by
// itself, as long as its context lets it.
func lost() []testCase {
	var all []testCase
	for _, v := range verbs() {
		all = append(all, over("OpsOf"+v.name+"Survive%v", fault.Retryable(), func(w *fixture, f fault.Kind) { opsSurvive(w, v, f) })...)
	}
	return slices.Concat(
		over("AJoinSurvives%v", fault.Retryable(), joinSurvives),
		over("AJoinIfEmptySurvives%v", fault.Retryable(), ifEmptySurvives),
		over("ALeaveSurvives%v", fault.Retryable(), leaveSurvives),
		over("AnUpdateOfAnEntrySurvives%v", fault.Retryable(), updateSurvives),
		over("AnUpdateOfAnEntryThatGoesBeforeItsRetryIsNoGuessAfter%v", fault.Retryable(), updateBetween),
		over("OpenSurvives%v", fault.Retryable(), openSurvives),
		over("CloseSurvives%v", fault.Retryable(), closeSurvives),
		all,
		over("ALeaveCutShortByACutOf%vIsFinishedByTheNext", fault.Directions(), leaveCutShort),
		over("AnUpdateCutShortByACutOf%vIsFinishedByTheNext", fault.Directions(), updateCutShort),
		[]testCase{{"SlowRepliesAreWaitedFor", slowReplies}},
	)
}

func joinSurvives(w *fixture, f fault.Kind) {
	holder, o := w.open(), w.open()
	first := []driver.Joined{holder.join(queue)}
	all := [][]driver.JoinRequest{requests(queues()...)}
	for _, req := range kinds() {
		all = append(all, []driver.JoinRequest{req})
	}
	for _, reqs := range all {
		o.c.Inject(fault.Join, f)
		js := o.joinAll(reqs...)

		checkView(w, js[0], first)
		for i, j := range js {
			if i > 0 {
				checkView(w, j, nil)
			}
			got := o.list(j.Entry.Queue)
			require.Equal(w.t, 1+j.View.Count, len(got), "exactly one entry of this join in %q", j.Entry.Queue)
			assert.Equal(w.t, j.Entry.Ref, got[j.View.Count].Ref)
			assert.Equal(w.t, string(reqs[i].Data), string(got[j.View.Count].Data))
			assert.Equal(w.t, string(reqs[i].Detail), string(got[j.View.Count].Detail))
		}
		again := o.join(queue)
		assert.Equal(w.t, 2, again.View.Count)
		o.leave(append(joinedRefs(js), again.Entry.Ref)...)
		assert.Equal(w.t, joinedRefs(first), refs(o.list(queue)), "nothing is left of it")
	}
}

// ifEmptySurvives: a session that repeats the request must not take its own entry for another's.
func ifEmptySurvives(w *fixture, f fault.Kind) {
	o := w.open()
	req := plain()
	req.IfEmpty = true
	o.c.Inject(fault.Join, f)
	j := o.joinWith(req)
	checkView(w, j, nil)
	assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(o.list(queue)))

	other := w.open()
	other.c.Inject(fault.Join, f)
	_, err := other.Join(w.soon(), req)
	checkTaken(w, err, queue, j.Entry.Ref, 1)
	w.count(1, queue, "nothing was written")
}

// leaveSurvives: an attempt of the call deletes the entries, whichever, and what was gone
// before was not deleted by it.
func leaveSurvives(w *fixture, f fault.Kind) {
	for _, v := range ways() {
		o, by := v.open(w)
		all, stays := o.joinQueues(queues()...), o.join(queue).Entry.Ref
		w.svc.Delete(w.t, all[1])
		by.fresh(queue)
		by.c.Inject(fault.Leave, f)
		left := by.leaveWith(v.request(all[0]), v.request(all[1]), v.request(all[2]))
		assert.NotEqual(w.t, driver.WasGone, left[0])
		assert.NotEqual(w.t, driver.Deleted, left[1], "it was gone before")
		assert.NotEqual(w.t, driver.WasGone, left[2])
		assert.Equal(w.t, []driver.Ref{stays}, refs(o.list(queue)))
		v.delete(by, all[0], driver.WasGone, "again")
		o.leave(stays)
	}
}

func updateSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	for m, req := range marked() {
		e := o.joinWith(req).Entry
		o.c.Inject(fault.Update, f)
		o.mark(e.Ref, m)
		assert.Equal(w.t, m, o.only(queue).Marks)
		assert.Equal(w.t, e.Token, o.only(queue).Token)
		o.leave(e.Ref)
	}
	e := o.joinWith(valued("old")).Entry
	o.c.Inject(fault.Update, f)
	o.write(e.Ref, "new")
	assert.Equal(w.t, "new", string(o.only(queue).Data))
	o.c.Inject(fault.Update, f)
	o.describe(e.Ref, "described")
	if !w.h.NoOptional {
		assert.Equal(w.t, "described", string(o.only(queue).Detail))
	}
	w.svc.Delete(w.t, e.Ref)
	o.c.Inject(fault.Update, f)
	_, err := o.Update(w.soon(), driver.UpdateRequest{Queue: queue, Entry: e.Ref, Data: []byte("newer")})
	require.ErrorIs(w.t, err, driver.ErrGone)
}

// updateBetween: the entry is deleted between two attempts. ErrGone would mean that none of
// them has written the record.
func updateBetween(w *fixture, f fault.Kind) {
	o := w.open()
	for i, req := range []driver.UpdateRequest{{}, {Data: []byte("new")}} {
		ref := o.joinWith(valued("old")).Entry.Ref
		name := fmt.Sprint("slot/", i)
		req.Queue, req.Entry, req.Ops = queue, ref, []driver.Op{op(name, driver.Absent(), "mine")}
		attempts := 0
		o.c.OnRequest(func() {
			attempts++
			if attempts == 2 {
				w.svc.Delete(w.t, ref)
			}
		})
		o.c.Inject(fault.Update, f)
		_, err := o.Update(w.soon(), req)
		o.c.OnRequest(nil)
		o.fresh(queue)
		done := o.value(name) != ""
		switch {
		case err == nil:
			assert.True(w.t, done)
		case errors.Is(err, driver.ErrGone):
			assert.False(w.t, done)
		default:
			assert.ErrorIs(w.t, err, driver.ErrUnavailable, "unknown")
		}
	}
}

func openSurvives(w *fixture, f fault.Kind) {
	c := w.client()
	c.Inject(fault.Open, f)
	o := w.openOn(c)
	require.NotEmpty(w.t, o.renewed())
	o.join(queue)
	w.count(1, queue, "the session works")
	assert.Zero(w.t, o.losses())
}

func closeSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	o.join(queue)
	o.c.Inject(fault.Close, f)
	require.NoError(w.t, o.end())
	w.count(0, queue, "gone when Close returns nil")
}

// opsSurvive: Ops are done once, and refused if their condition is not met, whatever
// becomes of the first attempt.
func opsSurvive(w *fixture, v verb, f fault.Kind) {
	o := w.open()
	for i, x := range opCases() {
		if len(x.had) > 1 || w.h.Sparse && (i+len(v.name)+len(f))%4 != 0 {
			continue // for the table without faults, and for another verb or fault
		}
		name := fmt.Sprint("row/", i)
		first, was := x.prepare(o, name)
		first.Optional = v.all
		o.c.Inject(v.kind, f)
		results, done, err := v.call(w.soon(), o, []driver.Op{first})
		now := o.record(queue, name)
		if !x.met && !first.Optional {
			checkRefused(w, err, first, was)
			assert.Equal(w.t, was, now, "%v: nothing was done", x)
			assert.False(w.t, done != nil && done(), "%v: nothing was done", x)
			continue
		}
		require.NoError(w.t, err, "%v", x)
		assert.True(w.t, done == nil || done(), "%v: what the request is for was done", x)
		met := x.met && !(w.h.NoOptional && first.Optional)
		x.check(w, first, met, was, now)
		for _, got := range results {
			x.shows(w, got, met, now)
			if v.kind == fault.Update { // the token of a slot is taken from there
				assert.Equal(w.t, driver.Result{Done: true, Record: now}, got, "%v: as the Op has left it, whichever attempt did it", x)
			}
		}
	}
}

// leaveCutShort: the first call may have done it and never knew.
func leaveCutShort(w *fixture, d fault.Direction) {
	o := w.open()
	o.set("ledger", "mine")
	reqs := leaves(o.joinQueues(queues()...)...)
	reqs[0].Ops = []driver.Op{op("ledger", driver.Equal([]byte("mine")), "")}
	var err error
	leave := func(ctx context.Context) { _, err = o.Leave(ctx, reqs...) }
	left := func() bool { return w.svc.Count(w.t, queue) == 0 }
	if d == fault.Replies {
		o.unanswered(fault.Leave, left, leave)
	} else {
		o.c.Cut(d)
		leave(w.moment())
	}
	require.ErrorIs(w.t, err, driver.ErrUnavailable, "unknown")
	done := left()
	w.counts(map[bool]int{false: 1}[done], "all or nothing")
	o.c.Heal()
	for _, left := range o.leaveWith(reqs...) {
		assert.False(w.t, done && left == driver.Deleted, "the earlier call did it")
	}
	w.counts(0, "it is done")
	assert.Equal(w.t, w.h.NoOptional, o.value("ledger") != "", "with its Ops")
}

// updateCutShort: calling again leads to the same state, or the error shows that the
// record is as the first call wanted it.
func updateCutShort(w *fixture, d fault.Direction) {
	for _, req := range []driver.UpdateRequest{
		{Data: []byte("new"), Detail: []byte("described"), Ops: []driver.Op{op("limit", driver.EqualOrAbsent([]byte("new")), "new")}},
		{Data: []byte("new"), Ops: []driver.Op{bound(op("slot/0", driver.Absent(), "new"))}},
	} {
		o := w.open()
		req.Queue, req.Entry = queue, o.joinWith(valued("old")).Entry.Ref
		o.c.Cut(d)
		_, err := o.Update(w.moment(), req)
		require.ErrorIs(w.t, err, driver.ErrUnavailable, "unknown")
		o.c.Heal()
		// An attempt that is not answered leaves the outcome unknown once more.
		for !o.once(func() { _, err = o.Update(w.soon(), req) }) && errors.Is(err, driver.ErrUnavailable) {
			require.NoError(w.t, w.ctx.Err())
		}
		var refused *driver.RefusedError
		if !errors.As(err, &refused) || req.Ops[0].If.Kind != driver.IfAbsent {
			require.NoError(w.t, err, "called again")
		}
		assert.Equal(w.t, "new", string(o.only(queue).Data))
		assert.Equal(w.t, "new", o.value(req.Ops[0].Record))
		o.leave(req.Entry)
	}
}

func slowReplies(w *fixture) {
	holder, o := w.open(), w.open()
	first := holder.join(queue)
	o.c.Delay(w.short / 4)
	j := o.join(queue)
	checkView(w, j, []driver.Joined{first})
	v := o.read(driver.ReadRequest{Queue: queue, Upto: j.Entry.Place})
	assert.Equal(w.t, []driver.Ref{first.Entry.Ref, j.Entry.Ref}, refs(v.Entries), "exactly one entry of this join")
	o.leave(j.Entry.Ref)
	w.count(1, queue, "the holder")
}

// canceledLate makes a call whose only request is held back while its context ends.
func (o *owner) canceledLate(kind fault.Op, call func(ctx context.Context) error) error {
	o.w.t.Helper()
	ctx, stop := context.WithCancel(o.w.soon())
	defer stop()
	o.c.Inject(kind, fault.LateRequest)
	o.c.OnRequest(stop)
	err := call(ctx)
	o.c.OnRequest(nil)
	require.Error(o.w.t, err, "unknown")
	return err
}
