package drivertest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// tell: who asks for it is told that an entry gave back a hold, where
// Profile.Tells says so, and is never told so wrongly, whatever it says.
func tell() []testCase {
	return slices.Concat(
		[]testCase{
			{"AReleaseIsTold", tellRelease},
			{"WhoDidNotAskIsNotTold", tellUnasked},
			{"AWaitersLeaveIsNoRelease", func(w *fixture) { tellOther(w, byLeave) }},
			{"ADeletionByHandIsNoRelease", func(w *fixture) { tellOther(w, byDeletion) }},
			{"AnExpiryIsNoRelease", func(w *fixture) { tellOther(w, byExpiry) }},
			{"ACloseIsNoRelease", func(w *fixture) { tellOther(w, byClose) }},
			{"AnAttemptToReleaseIsNoRelease", tellAttempt},
			{"TheWordOfOneEntryIsNotThatOfAnother", tellEarlier},
			{"JoinsAfterAReleaseDoNotMakeItWrong", tellJoins},
		},
		over("AReleaseSurvivesA%v", fault.Retryable(), tellSurvives),
	)
}

// asks watches an entry with Tell.
func (o *owner) asks(what string, ref driver.Ref) *recorder {
	o.w.t.Helper()
	r, _ := o.armed(what, driver.WatchRequest{Ref: ref, Tell: true})
	return r
}

// behind is a holder, and one who stands right behind it and watches it.
func behind(w *fixture) (holder *owner, held, own driver.Ref, r *recorder) {
	holder = w.open()
	waiter := w.open()
	held, own = holder.join(line).Entry.Ref, waiter.join(line).Entry.Ref
	return holder, held, own, waiter.asks("entry right ahead", held)
}

// awaitTruth waits for Gone and requires that who is told that the entry right
// before its own has held is first now.
func (r *recorder) awaitTruth(own driver.Ref) driver.Event {
	r.o.w.t.Helper()
	gone := r.await(driver.Gone)
	if gone.Held {
		v := r.o.look(driver.LookRequest{Line: own.Line, Upto: own.Place, NotBefore: gone.Rev})
		assert.Equal(r.o.w.t, []driver.Ref{own}, refs(v.Entries), "it held, so nobody was ahead of it")
		assert.True(r.o.w.t, v.Complete)
	}
	return gone
}

func tellRelease(w *fixture) {
	for range 3 { // one line for all, so that there are words before the last
		holder, held, own, r := behind(w)
		holder.release(held)
		gone := r.awaitTruth(own)
		if r.o.c.Backend().Profile().Tells {
			assert.True(w.t, gone.Held, "Profile.Tells")
		}
		r.o.leave(own)
	}
}

// tellUnasked: the recorders of those who did not ask see to the claim.
func tellUnasked(w *fixture) {
	holder, held, own, asked := behind(w)
	all := []*recorder{asked}
	for _, by := range []*owner{asked.o, holder, w.open()} {
		r, _ := by.armed("not asked", driver.WatchRequest{Ref: held, Own: by == holder})
		all = append(all, r)
	}
	holder.release(held)
	for _, r := range all {
		r.await(driver.Gone)
	}
	asked.o.leave(own)
}

// tellOther ends an entry in some way that is no release.
func tellOther(w *fixture, end func(holder *owner, held driver.Ref)) {
	holder, held, _, r := behind(w)
	end(holder, held)
	assert.False(w.t, r.await(driver.Gone).Held, "it did not give back a hold")
}

// tellAttempt: a release does not reach the service before an operator deletes
// the entry, and when it is tried again there is nothing to give back.
func tellAttempt(w *fixture) {
	holder, held, _, r := behind(w)
	r.o.c.Delay(w.h.TTL / 50) // so that both attempts come before the answer
	holder.c.Cut(fault.Requests)
	ctx := w.within(w.h.TTL / 20)
	_, err := holder.Leave(ctx, driver.LeaveRequest{Ref: held, Held: true})
	require.Error(w.t, err, "unknown")
	w.svc.Delete(w.t, held)
	holder.c.Heal()
	ctx = w.soon()
	_, _ = holder.Leave(ctx, driver.LeaveRequest{Ref: held, Held: true}) // gone, whoever did it
	assert.False(w.t, r.await(driver.Gone).Held, "it did not give back a hold")
	r.o.c.Heal()
}

// tellEarlier: there was a word in the line, but it was another's.
func tellEarlier(w *fixture) {
	holder, held, own, first := behind(w)
	second := w.open().asks("entry behind the holder", own)
	second.o.join(line)
	old := second.o.asks("holder", held)
	holder.release(held)
	old.await(driver.Gone)
	first.awaitTruth(own)
	w.svc.Delete(w.t, own)
	assert.False(w.t, second.await(driver.Gone).Held, "it was the holder before that gave back")

	again := holder.join(line).Entry.Ref // often with the same key
	r := second.o.asks("later entry", again)
	holder.leave(again)
	assert.False(w.t, r.await(driver.Gone).Held, "it was an earlier entry that gave back")
}

// tellJoins: others join before the waiter could find out.
func tellJoins(w *fixture) {
	crowd := func(holder *owner) {
		o := w.open()
		for _, by := range []*owner{holder, o, holder} {
			by.join(line)
		}
	}
	holder, held, own, r := behind(w)
	r.o.c.Delay(w.h.TTL / 50)
	holder.release(held)
	crowd(holder)
	r.awaitTruth(own)
	r.o.c.Heal()

	// The same with one who was only waiting, behind the one that holds now.
	between, last := w.open(), w.open()
	gone := between.join(line).Entry.Ref
	last.join(line)
	r = last.asks("entry that waits", gone)
	last.c.Delay(w.h.TTL / 50)
	between.leave(gone)
	crowd(holder)
	assert.False(w.t, r.await(driver.Gone).Held, "it did not hold")
	last.c.Heal()
}

// tellSurvives: a release whose first request goes wrong is told or not, and
// nobody else is taken to have given back.
func tellSurvives(w *fixture, f fault.Kind) {
	holder, held, own, first := behind(w)
	second := w.open().asks("entry behind the holder", own)
	second.o.join(line)
	holder.c.Inject(fault.Leave, f)
	holder.release(held)
	first.awaitTruth(own)
	w.svc.Delete(w.t, own)
	assert.False(w.t, second.await(driver.Gone).Held, "it did not give back a hold")
}
