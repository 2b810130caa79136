package drivertest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// late: a request arrives after the client has given it up.
func late() []testCase {
	return append(over("ALate%vDeletesNoLaterEntry", ways(), lateLeave), []testCase{
		{"ALateJoinAfterSettleMakesNoEntry", lateSettled},
		{"ALateJoinAfterItsRetryMakesNoSecondEntry", lateRetried},
		{"ALateJoinAfterItsRetryWasLeftMakesNoEntry", lateLeft},
		{"ALateJoinAfterCloseMakesNoEntry", lateClosed},
		{"ALateUpdateDoesNotUndoANewerOneOfTheEntry", lateEntry},
		{"ALateUpdateOfAnEntryThatWasLeftDoesNothing", lateGone},
		{"ALateUpdateDoesNotUndoANewerOneOfARecord", lateRecord},
	}...)
}

// kept is a join of several queues with a record in one of them.
func kept() []driver.JoinRequest {
	reqs := requests(queues()...)
	reqs[0].Detail = []byte("detail")
	reqs[0].Ops = []driver.Op{op("ledger", driver.Absent(), "mine"), bound(op("slot/0", driver.Absent(), "mine"))}
	return reqs
}

// erase leaves the entries of kept, and deletes the records that they wrote.
func erase(all []driver.Ref) []driver.LeaveRequest {
	reqs := leaves(all...)
	for _, name := range []string{"ledger", "slot/0"} {
		reqs[0].Ops = append(reqs[0].Ops, op(name, driver.Equal([]byte("mine")), ""))
	}
	return reqs
}

// nothing requires n entries in each queue, and the records of kept with them only.
func (o *owner) nothing(n int, why string) {
	w := o.w
	w.t.Helper()
	for _, name := range queues() {
		w.undone(n, name, why)
	}
	if n == 0 && w.h.Undone { // the record goes with what is deleted soon
		w.eventually(func() bool { return o.value("ledger")+o.value("slot/0") == "" }, why)
	}
	o.fresh(queue)
	for _, name := range []string{"ledger", "slot/0"} {
		assert.Equal(w.t, n == 1, o.value(name) == "mine", "%s: %s", name, why)
	}
}

// joinLate makes a join whose request is held back while its context ends, and returns its error.
func (o *owner) joinLate(reqs ...driver.JoinRequest) error {
	o.w.t.Helper()
	return o.canceledLate(fault.Join, func(ctx context.Context) error {
		_, err := o.Join(ctx, reqs...)
		return err
	})
}

func lateSettled(w *fixture) {
	o := w.open()
	o.uses()
	err := o.joinLate(kept()...)
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p, "the join may still come to exist")
	w.settle(err)
	o.c.Deliver()
	o.nothing(0, "Settle made sure that nothing stays")

	o.leaveWith(erase(joinedRefs(o.joinAll(kept()...)))...)
	w.counts(0, "the queues work as before")
}

func lateRetried(w *fixture) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	all := joinedRefs(o.joinAll(kept()...))
	o.c.Deliver()
	o.nothing(1, "one entry for one join")
	assert.Equal(w.t, all[:1], refs(o.list(queue)))
}

// lateLeft is the orphan that would live as long as its session: the first copy of a join
// arrives when the second has been answered and left.
func lateLeft(w *fixture) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	all := joinedRefs(o.joinAll(kept()...))
	o.set("ledger", "") // what a Leave may leave out
	o.set("slot/0", "")
	o.leaveWith(erase(all)...)
	o.c.Deliver()
	o.nothing(0, "a join that was answered and left does not come again")
}

func lateClosed(w *fixture) {
	o, by := w.open(), w.open()
	o.uses()
	err := o.joinLate(kept()...)
	require.NoError(w.t, o.end())
	o.c.Deliver()
	by.nothing(0, "nothing joins a queue with a closed session")
	w.settle(err)
	by.nothing(0, "settled")
}

// lateLeave: once without a record, as the smallest request that a service has for it.
func lateLeave(w *fixture, v way) {
	o, by := v.open(w)
	for _, ops := range [][]driver.Op{nil, {op("ledger", driver.Equal([]byte("old")), "")}} {
		e := o.join(queue).Entry.Ref
		o.set("ledger", "old")
		by.fresh(queue)
		by.sees(e)
		req := v.request(e)
		req.Ops = ops
		by.c.Inject(fault.Leave, fault.LateRequest)
		by.leaveWith(req)
		o.set("ledger", "new")
		again := o.join(queue).Entry.Ref // often with the same key
		by.c.Deliver()
		assert.Equal(w.t, []driver.Ref{again}, refs(o.list(queue)))
		assert.Equal(w.t, "new", o.value("ledger"))
		o.leave(again)
	}
}

// lateEntry: both copies of the older Update were sent before the newer one. Of a detail,
// which is not important, nothing is promised.
func lateEntry(w *fixture) {
	o := w.open()
	e := o.joinWith(valued("old")).Entry
	o.c.Inject(fault.Update, fault.LateRequest)
	o.write(e.Ref, "new")
	o.write(e.Ref, "newer")
	_ = o.canceledLate(fault.Update, func(ctx context.Context) error {
		_, err := o.Update(ctx, driver.UpdateRequest{Queue: queue, Entry: e.Ref, Data: []byte("given up")})
		return err
	})
	o.write(e.Ref, "newest")
	o.c.Deliver()
	assert.Equal(w.t, "newest", string(o.only(queue).Data), "the newer one was done")
}

// lateGone: the entry has been left, and another often has its key.
func lateGone(w *fixture) {
	o := w.open()
	for i, req := range []driver.UpdateRequest{
		{Marks: driver.MarkAdmitted, Ops: []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}},
		{Marks: driver.MarkShared},
		{Data: []byte("new"), Detail: []byte("new"), Ops: []driver.Op{op("slot/0", driver.Absent(), "mine")}},
		{Detail: []byte("new")},
	} {
		join := []driver.JoinRequest{weighted(2), writer(), valued("old"), plain()}[i]
		e := o.joinWith(join).Entry
		req.Queue, req.Entry = queue, e.Ref
		o.c.Inject(fault.Update, fault.LateRequest)
		o.update(req)
		o.set("slot/0", "")
		o.leave(e.Ref)
		again := o.joinWith(join).Entry
		before := o.only(queue)
		o.c.Deliver()
		assert.Equal(w.t, before, o.only(queue), "a later entry is as it was")
		assert.Empty(w.t, o.value("slot/0"), "it was only for the entry that is gone")
		o.leave(again.Ref)
	}
}

// lateRecord: an older Update of a record arrives after a newer one has been answered, of
// the same session and of another.
func lateRecord(w *fixture) {
	o, other := w.open(), w.open()
	for i, by := range []*owner{o, other} {
		name := fmt.Sprint("limit/", i)
		o.set(name, "1")
		o.c.Inject(fault.Update, fault.LateRequest)
		o.set(name, "2") // sent again, and answered
		by.set(name, "3")
		o.fresh(queue)
		was := o.record(queue, name)
		// Given up before it was sent again. The record has the same value once more when
		// it arrives.
		_ = o.canceledLate(fault.Update, func(ctx context.Context) error {
			_, err := o.Update(ctx, driver.UpdateRequest{Queue: queue, Ops: []driver.Op{op(name, driver.At(was.Version), "4")}})
			return err
		})
		for _, value := range []string{"5", "3"} {
			by.set(name, value)
		}
		o.c.Deliver()
		by.fresh(queue)
		assert.Equal(w.t, "3", by.value(name), "the newer ones were done")
		assert.NotEqual(w.t, was.Version, by.record(queue, name).Version)
	}
}
