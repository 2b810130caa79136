package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// leave: Leave deletes exactly its entries, and its answer shows how they went.
func leave() []testCase {
	return slices.Concat(
		over("%vDeletesAndASecondFindsItGone", ways(), leaveTwice),
		over("%vNeverDeletesALaterEntry", ways(), leaveLater),
		[]testCase{
			{"LeaveAfterTheSessionEndedIsNeverDeleted", leaveExpired},
			{"DeletedBetweenTwoAttemptsIsNotDeletedByTheSecond", leaveBetween},
			{"LeaveDeletesTheDetailToo", leaveDetail},
			{"LeaveOfWhatIsGoneChangesBoundRecordsOnly", leaveGoneOps},
			{"AnyEntryIsEvicted", evictAny},
			{"AnOwnEntryIsEvictedDuringItsUpdate", evictOwn},
		},
	)
}

// way is a way to delete an entry.
type way string

func ways() []way { return []way{"Leave", "Evict", "EvictByItsOwner"} }

// open opens a session, and another that deletes its entries: itself, or an operator's.
func (v way) open(w *fixture) (o, by *owner) {
	o = w.open()
	if v == "Evict" {
		return o, w.observe()
	}
	return o, o
}

func (v way) request(ref driver.Ref) driver.LeaveRequest {
	return driver.LeaveRequest{Ref: ref, Any: v != "Leave"}
}

// delete deletes an entry, which its session has been shown, and requires how it went.
func (v way) delete(by *owner, ref driver.Ref, want driver.Left, why string) {
	by.w.t.Helper()
	by.fresh(ref.Queue)
	by.sees(ref)
	by.went([]driver.Left{want}, why, v.request(ref))
}

func leaveTwice(w *fixture, v way) {
	o, by := v.open(w)
	a, b, c := o.join(queue).Entry.Ref, o.join(queue).Entry.Ref, o.join(queue).Entry.Ref
	elsewhere := o.join("elsewhere").Entry.Ref
	v.delete(by, a, driver.Deleted, "the first time")
	for range 2 {
		v.delete(by, a, driver.WasGone, "again")
	}
	w.svc.Delete(w.t, c)
	v.delete(by, c, driver.WasGone, "deleted by hand")
	assert.Equal(w.t, []driver.Ref{b}, refs(o.list(queue)))
	w.count(1, "elsewhere", "what is in other queues stays")
	o.went([]driver.Left{driver.WasGone, driver.Deleted, driver.Deleted}, "its owner's turn", leaves(a, b, elsewhere)...)
	assert.Zero(w.t, o.losses(), "the session lives")
}

func leaveLater(w *fixture, v way) {
	o, by := v.open(w)
	old := o.join(queue).Entry.Ref
	o.leave(old)
	young := o.join(queue).Entry.Ref // often with the same key
	f := w.others()
	mixed := driver.Ref{Queue: queue, Key: young.Key, Place: old.Place}
	all := []driver.Ref{old, mixed}
	if v != "Leave" {
		all = append(all, driver.Ref{Queue: queue, Key: f.Key, Place: f.Place - 1})
	}
	for _, ref := range all {
		v.delete(by, ref, driver.WasGone, "the key alone does not name an entry")
		w.count(2, queue, "the later entries stay")
	}
	v.delete(by, young, driver.Deleted, "key and place do")
	assert.Equal(w.t, []driver.Ref{f}, refs(o.list(queue)))
}

// leaveExpired: Deleted proves that the session was alive.
func leaveExpired(w *fixture) {
	o := w.open()
	e := o.join(queue).Entry
	w.svc.Expire(w.t, o.ID())
	w.count(0, queue, "entries end with their session")
	left, err := o.Leave(w.soon(), driver.LeaveRequest{Ref: e.Ref})
	if err == nil {
		assert.NotEqual(w.t, driver.Deleted, left[0])
		return
	}
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
}

// leaveGoneOps: an entry was deleted by hand, so another client may hold by now. The name
// of its owner in the ledger must stay for that one to see.
func leaveGoneOps(w *fixture) {
	o := w.open()
	js, err := o.Join(w.soon(), driver.JoinRequest{Queue: queue}, driver.JoinRequest{Queue: "elsewhere"})
	require.NoError(w.t, err)
	gone, there := js[0].Entry.Ref, js[1].Entry.Ref
	mine := driver.Equal([]byte("mine"))
	var reqs []driver.LeaveRequest
	for _, ref := range []driver.Ref{gone, there} {
		o.update(driver.UpdateRequest{Queue: ref.Queue, Ops: []driver.Op{
			op("ledger", driver.Absent(), "mine"), bound(op("slot/0", driver.Absent(), "mine")),
		}})
		reqs = append(reqs, driver.LeaveRequest{Ref: ref, Ops: []driver.Op{op("ledger", mine, ""), bound(op("slot/0", mine, ""))}})
	}
	w.svc.Delete(w.t, gone)

	o.went([]driver.Left{driver.WasGone, driver.Deleted}, "one was deleted by hand", reqs...)

	assert.Equal(w.t, "mine", string(o.record(queue, "ledger").Value), "of the entry that was gone")
	assert.Zero(w.t, o.record(queue, "slot/0"))
	assert.Zero(w.t, o.record("elsewhere", "ledger"))
	assert.Zero(w.t, o.record("elsewhere", "slot/0"))
}

// leaveBetween: the first attempt never arrives, then the session ends or an operator
// deletes the entry. What the second attempt finds is no proof that the session lived.
func leaveBetween(w *fixture) {
	for _, e := range endings()[2:] { // by others
		o := w.open()
		ref := o.join(queue).Entry.Ref
		attempts := 0
		o.c.OnRequest(func() {
			attempts++
			if attempts == 2 {
				e.end(o, ref)
			}
		})
		o.c.Inject(fault.Leave, fault.BrokenRequest)
		left, err := o.Leave(w.soon(), driver.LeaveRequest{Ref: ref})
		o.c.OnRequest(nil)
		if err != nil {
			require.ErrorIs(w.t, err, driver.ErrSessionOver, "%s", e)
			continue
		}
		assert.NotEqual(w.t, driver.Deleted, left[0], "%s", e)
	}
}

// leaveDetail: the detail of an entry does not become that of a later entry with its key.
func leaveDetail(w *fixture) {
	o := w.open()
	for _, end := range []func(ref driver.Ref){
		func(ref driver.Ref) { o.leave(ref) },
		func(ref driver.Ref) { w.svc.Delete(w.t, ref) },
		func(ref driver.Ref) { way("Evict").delete(o, ref, driver.Deleted, "evicted") },
	} {
		for _, req := range kinds() {
			e := o.joinWith(req).Entry
			o.describe(e.Ref, "old")
			end(e.Ref)
			w.count(0, queue, "it is gone")
			req.Detail = nil
			again := o.joinWith(req).Entry // often with the same key
			assert.Empty(w.t, o.only(queue).Detail, "a later entry has no detail of an earlier one")
			o.leave(again.Ref)
		}
	}
}

// evictAny evicts a holder, waiters of all kinds, and entries of others: from the end, so
// that each is somewhere else in the queue.
func evictAny(w *fixture) {
	o, by := w.open(), w.observe()
	var own []*recorder
	for _, req := range kinds() {
		own = append(own, o.armedEntry("own entry", o.joinWith(req).Entry.Ref))
	}
	w.others()
	if !w.h.NoForeign {
		w.svc.PutForeign(w.t, queue, false)
	}
	for all := by.list(queue); len(all) > 0; all = by.list(queue) {
		last := all[len(all)-1]
		way("Evict").delete(by, last.Ref, driver.Deleted, fmt.Sprint(last))
		require.Equal(w.t, refs(all[:len(all)-1]), refs(by.list(queue)), "that one and no other")
	}
	for _, r := range own {
		r.awaitGone()
		o.went([]driver.Left{driver.WasGone}, "evicted", leaves(r.target.Ref)...)
	}
	e := o.joinWith(writer()).Entry.Ref
	o.mark(e, driver.MarkShared)
	way("Evict").delete(by, e, driver.Deleted, "as it is shown")
	assert.Zero(w.t, o.losses(), "the session lives")
}

// first: Gone may report that the entry was the first of its queue, and never does so of
// one that was not.
func first() []testCase {
	return slices.Concat(
		[]testCase{
			{"AnEntryThatWasFirstIsReportedSo", firstReported},
			{"AnEarlierEntryWasFirstAndNotThisOne", firstEarlier},
			{"TheFirstOfOneQueueIsNotFirstInAnother", firstSeveral},
		},
		over("The%vOfAWaiterIsNotThatOfTheFirst", endings(), firstWaiter),
		over("FirstIsRightWith%v", fault.Retryable(), firstSurvives),
	)
}

// release is Leave of an entry that was first.
func (o *owner) release(ref driver.Ref) {
	o.w.t.Helper()
	o.leaveWith(driver.LeaveRequest{Ref: ref, First: true})
}

// behind is a holder, and another that is right behind it and watches it. They have come when
// others held: some services report what was first only in a longer queue.
func behind(w *fixture) (holder *owner, held, own driver.Ref, r *recorder) {
	early := w.open()
	before := []driver.Ref{early.join(queue).Entry.Ref, early.join(queue).Entry.Ref, early.join(queue).Entry.Ref}
	holder = w.open()
	waiter := w.open()
	held, own = holder.join(queue).Entry.Ref, waiter.join(queue).Entry.Ref
	for _, ref := range before {
		early.leave(ref)
	}
	return holder, held, own, waiter.armedEntry("entry right ahead", held)
}

// awaitTruth waits for the end of the entry right before own, and requires that own is
// first now if the event has First.
func (r *recorder) awaitTruth(own driver.Ref) driver.Event {
	r.o.w.t.Helper()
	gone := r.await(driver.Gone)
	if gone.First {
		v := r.o.read(driver.ReadRequest{Queue: own.Queue, Upto: own.Place})
		assert.Equal(r.o.w.t, []driver.Ref{own}, refs(v.Entries), "no entry was ahead of it")
		assert.True(r.o.w.t, v.Complete)
	}
	return gone
}

// firstReported: also if others join before the event comes, and if others in the same
// queue were first before.
func firstReported(w *fixture) {
	for i := range 3 {
		holder, held, own, r := behind(w)
		r.o.c.Delay(time.Duration(i) * w.short / 50)
		holder.release(held)
		after := holder.join(queue).Entry.Ref
		gone := r.awaitTruth(own)
		if w.h.First && !r.lost() {
			assert.True(w.t, gone.First, "Harness.First")
		}
		r.o.c.Heal()
		r.o.leave(own)
		holder.leave(after)
	}
}

// firstWaiter ends, in some way, an entry that was never first, while others join.
func firstWaiter(w *fixture, e ending) {
	holder, o, by := w.open(), w.open(), w.open()
	for range 3 {
		holder.join(queue)
	}
	ref := o.join(queue).Entry.Ref
	by.join(queue)
	r := by.armedEntry("waiter ahead", ref)
	by.c.Delay(w.short / 50)
	e.end(o, ref)
	holder.join(queue)
	assert.False(w.t, r.awaitGone().First, "the holder was ahead of it")
	by.c.Heal()
}

// firstEarlier: what an entry left behind is not taken for that of a later one, which
// often has its key.
func firstEarlier(w *fixture) {
	holder, held, own, r := behind(w)
	holder.release(held)
	r.awaitTruth(own)
	for _, e := range byOthers() {
		again := holder.join(queue).Entry.Ref
		late := w.open().armedEntry("later entry", again)
		e.end(holder, again)
		assert.False(w.t, late.awaitGone().First, "it was behind the waiter")
	}
}

func firstSeveral(w *fixture) {
	other, o, by := w.open(), w.open(), w.open()
	other.join(queues()[1])
	reqs := leaves(o.joinQueues(queues()...)...)
	var watches []*recorder
	for i := range reqs {
		watches = append(watches, by.armedEntry(reqs[i].Ref.Queue, reqs[i].Ref))
		reqs[i].First = i != 1
	}
	o.leaveWith(reqs...)
	for i, r := range watches {
		gone := r.awaitGone()
		assert.False(w.t, i == 1 && gone.First, "another was ahead of it there")
		assert.True(w.t, i == 1 || gone.First || !w.h.First || r.lost(), "Harness.First")
	}
}

// firstSurvives: a release whose first request goes wrong is reported so or not, and
// nothing else is taken for one.
func firstSurvives(w *fixture, f fault.Kind) {
	holder, held, own, r := behind(w)
	third := w.open()
	waits := third.join(queue).Entry.Ref
	late := w.open().armedEntry("the third", waits)
	holder.c.Inject(fault.Leave, f)
	holder.release(held)
	r.awaitTruth(own)
	third.c.Inject(fault.Leave, f)
	third.leave(waits)
	assert.False(w.t, late.awaitGone().First, "the second is ahead of it")
}

// evictOwn: an operator may evict with the session that holds. Every other call about an
// entry waits for the one before, this one does not.
func evictOwn(w *fixture) {
	o := w.open()
	var all []driver.Left
	for range 5 {
		e := o.join(queue).Entry.Ref
		o.fresh(queue)
		updated := make(chan error, 1)
		go func() {
			_, err := o.Update(w.soon(), driver.UpdateRequest{Queue: queue, Entry: e, Detail: []byte("new")})
			updated <- err
		}()
		all = append(all, o.leaveWith(driver.LeaveRequest{Ref: e, Any: true})...)
		if err := <-updated; err != nil {
			require.ErrorIs(w.t, err, driver.ErrGone)
		}
		o.went([]driver.Left{driver.WasGone}, "evicted", leaves(e)...)
		w.count(0, queue, "the entry is gone")
	}
	assert.NotContains(w.t, all, driver.WasGone)
	assert.Contains(w.t, all, driver.Deleted)
	if w.h.Virtual {
		assert.NotContains(w.t, all, driver.Unclear, "one attempt each")
	}
}
