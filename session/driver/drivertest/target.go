package drivertest

import (
	"reflect"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// targets: a whole queue, its holders and its records are watched, also those that are
// not there yet.
func targets() []testCase {
	all := []testCase{{"ACanceledWatchOfATargetIsSilent", targetCanceled}}
	for _, s := range targetCases() {
		all = append(all,
			testCase{s.name + "IsReported", func(w *fixture) { targetReported(w, s, w.open().armedAt(s.target), w.observe().armedAt(s.target)) }},
			testCase{s.name + "IsReportedToAWatchBegunWhileCut", func(w *fixture) { targetReported(w, s, w.open().watchWhileCut(s.target)) }},
		)
		all = append(all, over(s.name+"IsReportedOverACutOf%v", fault.Directions(), func(w *fixture, d fault.Direction) { targetOverCut(w, s, d) })...)
	}
	return all
}

func ofQueue(name string) driver.Target { return driver.Target{Kind: driver.OfQueue, Queue: name} }

func ofHolders() driver.Target { return driver.Target{Kind: driver.OfHolders, Queue: queue} }

func ofRecord(name string) driver.Target {
	return driver.Target{Kind: driver.OfRecord, Queue: queue, Record: name}
}

func (o *owner) armedAt(t driver.Target) *recorder {
	o.w.t.Helper()
	r, _ := o.armed("target", t)
	return r
}

// targetCase is a target and its changes: each step changes what a Read shows of it.
type targetCase struct {
	name   string
	target driver.Target
	steps  func(o *owner) []func()
}

func targetCases() []targetCase {
	return []targetCase{
		{"WhatHappensToAQueue", ofQueue(queue), queueSteps},
		{"WhatHappensToAQueueOfYieldRequests", ofQueue(driver.AskQueue(queue)), yieldSteps},
		{"WhatHappensToHolders", ofHolders(), holderSteps},
		{"WhatHappensToARecord", ofRecord("slot/0"), recordSteps},
	}
}

func queueSteps(o *owner) []func() {
	w, other := o.w, o.w.open()
	var a, b, c, f driver.Ref
	return []func(){
		func() { a = o.joinWith(valued("old")).Entry.Ref },
		func() { b = o.joinWith(weighted(2)).Entry.Ref },
		func() { c = o.joinQueues(queues()...)[0] },
		func() { f = w.others() },
		func() { o.write(a, "new") },
		func() { o.mark(b, driver.MarkAdmitted) },
		func() { o.leave(a) },
		func() { w.svc.Delete(w.t, b) },
		func() { other.join(queue) },
		func() { w.svc.Expire(w.t, other.ID()) },
		func() { w.svc.Delete(w.t, f) },
		func() { o.leave(c) },
		func() { a = o.joinWith(writer()).Entry.Ref }, // the end of the last entry was not that of the watch
		func() { o.mark(a, driver.MarkShared) },
		func() { require.NoError(w.t, o.end()) },
	}
}

func yieldSteps(o *owner) []func() {
	other := o.w.open()
	var a driver.Ref
	return []func(){
		func() { a = o.joinWith(yielding(queue, "one")).Entry.Ref },
		func() { other.joinWith(yielding(queue, "two")) },
		func() { o.leave(a) },
		func() { o.w.svc.Expire(o.w.t, other.ID()) },
	}
}

// holderSteps lets a holder come and go in each way.
func holderSteps(o *owner) (steps []func()) {
	stays := o.joinWith(weighted(2)).Entry.Ref
	steps = append(steps, func() { o.mark(stays, driver.MarkAdmitted) })
	for _, e := range endings() {
		by := o.w.open()
		goes := by.joinWith(weighted(1)).Entry.Ref
		steps = append(steps, func() {
			by.armedEntry("own entry", goes) // of a deletion by hand its owner may have to learn first
			by.mark(goes, driver.MarkAdmitted)
		}, func() { e.end(by, goes) })
	}
	return steps
}

// recordSteps changes a record in each way.
func recordSteps(o *owner) []func() {
	w := o.w
	req := plain()
	req.Ops = []driver.Op{bound(op("slot/0", driver.Absent(), "c"))}
	var e driver.Ref
	free := []driver.Op{op("slot/0", driver.Equal([]byte("c")), "")}
	return []func(){
		func() { o.set("slot/0", "a") },
		func() { o.set("slot/0", "b") },
		func() { o.set("slot/0", "") },
		func() { e = o.joinWith(req).Entry.Ref },
		func() { o.leaveWith(driver.LeaveRequest{Ref: e, Ops: free}) },
		func() { e = o.joinWith(req).Entry.Ref },
		func() { require.NoError(w.t, o.end()) },
	}
}

// shown is what a Read of the session shows of a target.
func (o *owner) shown(t driver.Target) any {
	o.w.t.Helper()
	all := o.entries(t.Queue)
	switch t.Kind {
	case driver.OfRecord:
		return o.value(t.Record)
	case driver.OfHolders:
		return refs(slices.DeleteFunc(all, func(e driver.Entry) bool { return !e.Marks.Has(driver.MarkAdmitted) }))
	default:
		return all
	}
}

// follow waits until a watch has reported what has happened: a Read that begins with one
// of its events shows it.
func (r *recorder) follow(by *owner) {
	r.o.w.t.Helper()
	by.fresh(r.target.Queue)
	want := by.shown(r.target)
	r.awaitNews(func() bool { return reflect.DeepEqual(want, r.o.shown(r.target)) })
}

func targetReported(w *fixture, s targetCase, watches ...*recorder) {
	by := w.observe()
	for i, step := range s.steps(w.open()) {
		before := by.shown(s.target)
		step()
		for _, r := range watches {
			r.follow(by)
		}
		require.NotEqual(w.t, before, by.shown(s.target), "step %d changes what a Read shows", i)
	}
}

// targetOverCut: what happened while a client was cut off is reported after it, and so is
// what happens then.
func targetOverCut(w *fixture, s targetCase, d fault.Direction) {
	by := w.observe()
	r := w.open().armedAt(s.target)
	for i, step := range s.steps(w.open()) {
		if i == 0 {
			r.o.c.Cut(d)
			step()
			time.Sleep(w.short / 20) // not long enough to expire
			r.o.c.Heal()
		} else {
			step()
		}
		r.follow(by)
	}
}

func targetCanceled(w *fixture) {
	o, by := w.open(), w.open()
	for _, s := range targetCases() {
		canceled, stop := by.armed("canceled", s.target)
		still := by.armedAt(s.target)
		stop()
		stop()
		w.eventually(func() bool { return by.inside.Load() == 0 }, "a callback that was running has returned")
		before := len(canceled.all())
		// The third one would undo the first two of a record: several changes may be reported as
		// one, and these as none.
		for _, step := range s.steps(o)[:2] {
			step()
		}
		still.follow(o)
		assert.LessOrEqual(w.t, len(canceled.all()), before+1, "one may have been on its way")
	}
}
