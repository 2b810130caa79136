package drivertest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// watch: an armed watch reports what happens to its entry, whatever the cause.
func watch() []testCase {
	return slices.Concat(
		over("WatchReportsTheEndBy%v", endings(), watchEnds),
		over("WatchOfTheOwnEntryReportsTheEndBy%v", byOthers(), watchOwn),
		over("AnEntryThatWasGoneBy%vIsNeverArmed", endings(), watchGone),
		[]testCase{
			{"AnEntryWhoseKeyIsUsedAgainIsNeverArmed", watchReused},
			{"AnEntryThatGoesWhileItsWatchIsArmedIsGone", watchRaced},
			{"WatchReportsThatDataWasWritten", watchChanges},
			{"ACanceledWatchIsSilent", watchCanceled},
			{"WatchBegunWhileCutIsArmedAfterIt", watchBegunCut},
		},
		over("WatchMissesNothingOverACutOf%v", fault.Directions(), watchOverCut),
	)
}

// byOthers are the ends of one entry alone.
func byOthers() []ending { return []ending{endings()[0], endings()[3]} }

// watched makes an entry with a watch of another session on it.
func watched(w *fixture, req driver.JoinRequest) (holder *owner, e driver.Entry, r *recorder) {
	holder = w.open()
	e = holder.joinWith(req).Entry
	return holder, e, w.open().armedEntry("entry of another", e.Ref)
}

func watchEnds(w *fixture, e ending) {
	for _, req := range kinds() {
		o, entry, r := watched(w, req)
		e.end(o, entry.Ref)
		r.awaitGone()
	}
}

func watchOwn(w *fixture, e ending) {
	o := w.open()
	a, b := o.join(queue).Entry, o.join(queue).Entry
	ra, rb := o.armedEntry("first own entry", a.Ref), o.armedEntry("second own entry", b.Ref)
	e.end(o, a.Ref)
	ra.awaitGone()
	rb.silent("the other entry lives")
	e.end(o, b.Ref)
	rb.awaitGone()
}

// watchGone: Armed would mean that it is there.
func watchGone(w *fixture, e ending) {
	o, by := w.open(), w.open()
	ref, stays := o.join(queue).Entry.Ref, by.join(queue).Entry.Ref
	by.meet(ref)
	by.armedEntry("another entry", stays)
	e.end(o, ref)
	by.fresh(queue) // its server may lag behind
	neverArmed(by, ref)
	neverArmed(by, ref)
	if e.name == "Leave" || e.name == "Deletion" {
		o.fresh(queue)
		neverArmed(o, ref)
	}
}

func neverArmed(o *owner, ref driver.Ref) {
	o.w.t.Helper()
	r, _ := o.watch("entry that is gone", ref.Target())
	require.Equal(o.w.t, driver.Gone, r.await(driver.Armed, driver.Changed, driver.Gone).Kind, "it was gone when Watch was called")
}

// watchReused: key and place name an entry, and the key alone does not.
func watchReused(w *fixture) {
	for _, req := range kinds() {
		o, old, r := watched(w, req)
		o.leave(old.Ref)
		young := o.joinWith(req).Entry.Ref // often with the same key
		r.awaitGone()
		neverArmed(r.o, old.Ref)
		neverArmed(o, old.Ref)
		late := r.o.armedEntry("the later entry", young)
		o.leave(young)
		late.awaitGone()
		assert.Equal(w.t, driver.Gone, r.all()[len(r.all())-1].Kind, "nothing after Gone")
	}
}

// watchRaced: an entry is deleted at some moment after Watch was called. Armed may come,
// from before that, and Gone must.
func watchRaced(w *fixture) {
	o, by := w.open(), w.open()
	for i := range 6 {
		e := o.join(queue).Entry.Ref
		by.meet(e)
		by.c.Delay(w.short / 100)
		r, _ := by.watch("entry that goes", e.Target())
		time.Sleep(time.Duration(i) * w.short / 300) // the claim is about time
		w.svc.Delete(w.t, e)
		r.awaitGone()
		by.c.Heal()
	}
}

// watchChanges: an entry that was written is the same entry, also to watches that begin
// then. All watches of it are reported to.
func watchChanges(w *fixture) {
	o, e, r := watched(w, valued("old"))
	w.svc.Overwrite(w.t, e.Ref, nil)
	shown := func(o *owner, v string) func() bool {
		return func() bool { return string(o.entries(queue)[0].Data) == v }
	}
	r.awaitChange(0, shown(o, "old")) // as it was, by an operator
	all := []*recorder{r, o.armedEntry("own entry", e.Ref)}
	for _, v := range []string{"a", "b", "c"} {
		all = append(all, r.o.armedEntry("the same entry", e.Ref))
		o.write(e.Ref, v)
		for _, r := range all {
			r.awaitChange(0, shown(r.o, v))
		}
	}
	o.leave(e.Ref)
	for _, r := range all {
		r.awaitGone()
	}
}

func watchCanceled(w *fixture) {
	o := w.open()
	a, b := o.join(queue).Entry, o.join(queue).Entry
	by := w.open()
	silent, stop := by.armed("canceled", a.Target())
	still, after := by.armedEntry("not canceled", a.Ref), by.armedEntry("behind", b.Ref)
	stop()
	stop()
	o.leave(a.Ref)
	still.awaitGone()
	o.leave(b.Ref)
	after.awaitGone()

	silent.silent("nothing after cancel")
}

// watchWhileCut begins a watch that is armed when the network is back.
func (o *owner) watchWhileCut(t driver.Target) (r *recorder) {
	w := o.w
	w.t.Helper()
	o.c.Cut(fault.Both)
	ended := make(chan struct{})
	close(ended) // Watch takes no context: it must return at once
	w.prompt(o.c, "Watch", ended, func() { r, _ = o.watch("begun during the cut", t) })
	time.Sleep(w.short / 20)
	o.c.Heal()
	r.await(driver.Armed)
	return r
}

func watchBegunCut(w *fixture) {
	o, by := w.open(), w.open()
	e := o.join(queue).Entry
	by.meet(e.Ref)
	r := by.watchWhileCut(e.Target())
	o.leave(e.Ref)
	r.awaitGone()
}

// watchOverCut: what happened while a client was cut off is reported after it, and so is
// what happens then. Marks come with Changed, or with Armed after Lost.
func watchOverCut(w *fixture, d fault.Direction) {
	o, a, goes := watched(w, plain())
	b := o.joinWith(writer()).Entry.Ref
	changes := goes.o.armedEntry("entry that is marked", b)
	own := goes.o.armedEntry("own entry", goes.o.join(queue).Entry.Ref)
	goes.o.c.Cut(d)
	o.leave(a.Ref)
	o.mark(b, driver.MarkShared)
	w.svc.Delete(w.t, own.target.Ref)
	o.join(queue)            // often with the key of the first
	time.Sleep(w.short / 20) // cut off for a while, and not long enough to expire
	goes.o.c.Heal()
	goes.awaitGone()
	own.awaitGone()
	changes.awaitMarks(driver.MarkShared)
	o.leave(b)
	changes.awaitGone()
}

// events: callbacks run one at a time, and may act.
func events() []testCase {
	return []testCase{
		{"CallbacksRunOneAtATime", eventsOneAtATime},
		{"ACallbackMayWatchAndCancel", eventsFromCallback},
		{"AnAbandonedSessionIsSilent", eventsAbandoned},
	}
}

// eventsOneAtATime: a callback that takes a moment does not meet another.
func eventsOneAtATime(w *fixture) {
	by, o := w.open(), w.open()
	const n = 12
	var inside, together, ended atomic.Int32
	for i := range n {
		ref := o.join(queues()[i%3]).Entry.Ref
		by.meet(ref)
		r := newRecorder(by, ref.Queue, ref.Target())
		by.Watch(ref.Target(), func(ev driver.Event) {
			r.receive(ev)
			if ev.Kind == driver.Gone {
				if inside.Add(1) > 1 {
					together.Add(1)
				}
				time.Sleep(time.Millisecond) // so that another would meet it
				inside.Add(-1)
				ended.Add(1)
			}
		})
		r.await(driver.Armed)
	}
	require.NoError(w.t, o.end())
	w.eventually(func() bool { return ended.Load() == n }, "Gone for each entry")
	assert.Zero(w.t, together.Load(), "callbacks of one session run one at a time")
}

func eventsFromCallback(w *fixture) {
	o, by := w.open(), w.open()
	a, b := o.join(queue).Entry, o.join(queue).Entry
	next := newRecorder(by, "watch from a callback", b.Target())
	by.meet(b.Ref)
	silent, cancel := by.armed("canceled from a callback", b.Target())
	// next is called by the same goroutine as this callback, never inside it.
	by.Watch(a.Target(), func(ev driver.Event) {
		if ev.Kind == driver.Gone {
			cancel()
			by.Watch(b.Target(), next.receive)
		}
	})
	barrier := by.armedEntry("barrier", a.Ref)
	o.leave(a.Ref)
	barrier.awaitGone()
	next.await(driver.Armed)
	o.leave(b.Ref)
	next.awaitGone()
	silent.silent("nothing after cancel")
}

func eventsAbandoned(w *fixture) {
	_, e, r := watched(w, plain())
	other := w.open().armedEntry("of another session", e.Ref)
	r.o.Abandon()
	w.svc.Delete(w.t, e.Ref)
	other.awaitGone()
	r.silent("nothing after Abandon")
}
