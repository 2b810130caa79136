package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// watch: an armed watch tells the end of its entry, whatever the cause.
func watch() []testCase {
	return []testCase{
		{"WatchTellsALeave", watchLeave},
		{"WatchTellsADeletionByHand", func(w *fixture) { watchEnds(w, byDeletion) }},
		{"WatchTellsAnExpiry", func(w *fixture) { watchEnds(w, byExpiry) }},
		{"WatchTellsAClose", func(w *fixture) { watchEnds(w, byClose) }},
		{"WatchOnTheOwnEntryTellsADeletion", watchOwn},
		{"WatchOnAnEntryThatIsGoneShowsIt", watchGone},
		{"WatchSinceTellsWhatWentBefore", watchSince},
		{"WatchTellsOneEntryFromALaterWithItsKey", watchLater},
		{"WatchTellsChangesToWhoWantsThem", watchChanges},
		{"ACanceledWatchIsSilent", watchCanceled},
		{"WatchMissesNothingOverACut", watchOverCut},
		{"WatchTellsOnAfterACut", watchAfterCut},
		{"WatchBegunWhileCutIsArmedAfterIt", watchBegunCut},
	}
}

// ending is a way of an entry to end.
type ending struct {
	name string
	end  func(o *owner, ref driver.Ref)
}

// String names the ending in the names of cases.
func (e ending) String() string { return e.name }

func endings() []ending {
	return []ending{
		{"Leave", byLeave}, {"Close", byClose}, {"Expiry", byExpiry}, {"Deletion", byDeletion},
	}
}

func byLeave(o *owner, ref driver.Ref)    { o.leave(ref) }
func byClose(o *owner, _ driver.Ref)      { require.NoError(o.w.t, o.end()) }
func byExpiry(o *owner, _ driver.Ref)     { o.w.svc.Expire(o.w.t, o.ID()) }
func byDeletion(o *owner, ref driver.Ref) { o.w.svc.Delete(o.w.t, ref) }

// watched makes an entry with a watch of another session on it.
func watched(w *fixture) (holder *owner, e driver.Entry, r *recorder) {
	holder = w.open()
	e = holder.join(line).Entry
	r, _ = w.open().armed("entry of another", driver.WatchRequest{Ref: e.Ref})
	return holder, e, r
}

func watchLeave(w *fixture) {
	o, e, r := watched(w)
	left := o.leave(e.Ref)
	gone := r.await(driver.Gone)
	if left.Rev != 0 && gone.Rev != 0 {
		assert.Equal(w.t, left.Rev, gone.Rev, "the revision of the deletion")
	}
	assert.False(w.t, r.o.sees(e.Ref, gone.Rev))
}

func watchEnds(w *fixture, end func(o *owner, ref driver.Ref)) {
	o, e, r := watched(w)
	end(o, e.Ref)
	r.await(driver.Gone)
}

func watchOwn(w *fixture) {
	o := w.open()
	a, b := o.join(line).Entry, o.join(line).Entry
	ra, _ := o.armed("first own entry", driver.WatchRequest{Ref: a.Ref, Own: true})
	rb, _ := o.armed("second own entry", driver.WatchRequest{Ref: b.Ref, Own: true})
	w.svc.Delete(w.t, a.Ref)
	ra.await(driver.Gone)
	assert.Len(w.t, rb.all(), 1, "the other entry lives")

	w.svc.Delete(w.t, b.Ref)
	rb.await(driver.Gone)
}

func watchGone(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	o.join(line)
	w.svc.Delete(w.t, e.Ref)
	for _, own := range []bool{false, true} {
		r, _ := o.watch("entry that is gone", driver.WatchRequest{Ref: e.Ref, Own: own})
		r.awaitGone(e.Ref)
	}
}

func watchSince(w *fixture) {
	o, other := w.open(), w.open()
	e := o.join(line).Entry
	rev := o.look(driver.LookRequest{Line: line, Upto: e.Place}).Rev
	alive, _ := other.armed("entry that lives, since", driver.WatchRequest{Ref: e.Ref, Since: rev})
	w.svc.Delete(w.t, e.Ref)
	alive.await(driver.Gone)

	if rev == 0 {
		return // there is no way to ask for what was before
	}
	late, _ := o.watch("own entry that is gone, since", driver.WatchRequest{Ref: e.Ref, Own: true, Since: rev})
	late.await(driver.Gone)
	late, _ = other.watch("entry that is gone, since", driver.WatchRequest{Ref: e.Ref, Since: rev})
	late.await(driver.Gone)
}

func watchLater(w *fixture) {
	o, e, r := watched(w)
	o.leave(e.Ref)
	again := o.join(line).Entry // often with the same key
	gone := r.await(driver.Gone)
	young, _ := r.o.armed("later entry", driver.WatchRequest{Ref: again.Ref})
	assert.Less(w.t, e.Place, again.Place)
	assert.False(w.t, r.o.sees(e.Ref, gone.Rev))

	o.leave(again.Ref)
	young.await(driver.Gone)
	assert.Equal(w.t, driver.Gone, r.all()[len(r.all())-1].Kind, "nothing after a Gone")
}

func watchChanges(w *fixture) {
	o, e, quiet := watched(w)
	r, _ := quiet.o.armed("entry, changes wanted", driver.WatchRequest{Ref: e.Ref, Changes: true})
	w.svc.Overwrite(w.t, e.Ref, nil)
	changed := r.await(driver.Changed, driver.Gone)
	assert.Equal(w.t, driver.Changed, changed.Kind)
	o.leave(e.Ref)
	gone := r.await(driver.Gone)
	quiet.await(driver.Gone)

	if gone.Rev != 0 {
		assert.Greater(w.t, gone.Rev, changed.Rev)
	}
	quiet.unchanged()
}

func watchCanceled(w *fixture) {
	o := w.open()
	a, b := o.join(line).Entry, o.join(line).Entry
	by := w.open()
	silent, stop := by.armed("canceled", driver.WatchRequest{Ref: a.Ref})
	still, _ := by.armed("not canceled", driver.WatchRequest{Ref: a.Ref})
	after, _ := by.armed("behind", driver.WatchRequest{Ref: b.Ref})
	stop()
	stop()
	o.leave(a.Ref)
	still.await(driver.Gone)
	o.leave(b.Ref)
	after.await(driver.Gone)

	assert.Len(w.t, silent.all(), 1, "nothing after cancel")
}

// watchOverCut: what went while a client was cut off is told after it.
func watchOverCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, e, r := watched(w)
		own := r.o.join(line).Entry
		ro, _ := r.o.armed("own entry", driver.WatchRequest{Ref: own.Ref, Own: true})
		r.o.c.Cut(d)
		o.leave(e.Ref)
		w.svc.Delete(w.t, own.Ref)
		r.o.c.Heal()
		r.awaitGone(e.Ref)
		ro.awaitGone(own.Ref)
	}
}

// watchAfterCut: a watch that lived over a cut still works.
func watchAfterCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, e, r := watched(w)
		r.o.c.Cut(d)
		time.Sleep(w.h.TTL / 20) // cut off for a while, and not long enough to expire
		r.o.c.Heal()
		assert.True(w.t, r.o.sees(e.Ref, 0))
		o.leave(e.Ref)
		r.awaitGone(e.Ref)
	}
}

func watchBegunCut(w *fixture) {
	o, by := w.open(), w.open()
	e := o.join(line).Entry
	by.meet(e.Ref)
	r := by.watchWhileCut(driver.WatchRequest{Ref: e.Ref})
	o.leave(e.Ref)
	r.awaitGone(e.Ref)
}

// watchWhileCut begins a watch that is armed when the network is back.
func (o *owner) watchWhileCut(req driver.WatchRequest) (r *recorder) {
	w := o.w
	w.t.Helper()
	o.c.Cut(fault.Both)
	ended := make(chan struct{})
	close(ended) // Watch takes no context: it must return at once
	w.prompt(o.c, "Watch", ended, func() { r, _ = o.watch("begun while cut off", req) })
	time.Sleep(w.h.TTL / 20)
	o.c.Heal()
	r.await(driver.Armed)
	return r
}

// aspect: a whole line is watched, also one that is empty.
func aspect() []testCase {
	all := []testCase{
		{"ALineIsWatchedOverACut", aspectOverCut},
		{"ALineIsWatchedBegunWhileCut", aspectBegunCut},
		{"ACanceledWatchOfALineIsSilent", aspectCanceled},
		{"AWatchOfALineGoesOnAfterItIsEmpty", aspectGoesOn},
	}
	for _, e := range happenings() {
		all = append(all, testCase{e.name + "IsToldToWhoWatchesTheLine", func(w *fixture) { aspectTold(w, e) }})
	}
	return all
}

// happening is something that happens to a line which has an entry of o, or none.
type happening struct {
	name string
	req  *driver.JoinRequest // of the entry that is there before
	act  func(o *owner, ref driver.Ref)
}

func happenings() []happening {
	req := func(req driver.JoinRequest) *driver.JoinRequest { return &req }
	return []happening{
		{"AJoinOfAnEmptyLine", nil, func(o *owner, _ driver.Ref) { o.join(line) }},
		{"AJoin", req(exclusive()), func(o *owner, _ driver.Ref) { o.join(line) }},
		{"AJoinOfSeveral", nil, func(o *owner, _ driver.Ref) { o.joinAll(lines()...) }},
		{"AForeignEntry", nil, func(o *owner, _ driver.Ref) { o.w.svc.PutForeign(o.w.t, line, true) }},
		{"ALeave", req(exclusive()), func(o *owner, ref driver.Ref) { o.leave(ref) }},
		{"ADeletion", req(exclusive()), func(o *owner, ref driver.Ref) { o.w.svc.Delete(o.w.t, ref) }},
		{"AnExpiry", req(exclusive()), func(o *owner, _ driver.Ref) { o.w.svc.Expire(o.w.t, o.ID()) }},
		{"AWrite", req(valued("old")), func(o *owner, ref driver.Ref) { o.write(ref, "new") }},
		{"AShare", req(exclusive()), func(o *owner, ref driver.Ref) { o.share(ref) }},
	}
}

// watchLine watches the line.
func (o *owner) watchLine() (*recorder, func()) {
	o.w.t.Helper()
	return o.armed("line", driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLine})
}

func aspectTold(w *fixture, e happening) {
	o, by := w.open(), w.open()
	var ref driver.Ref
	if e.req != nil {
		ref = o.joinWith(*e.req).Entry.Ref
		by.meet(ref)
	}
	r, _ := by.watchLine()
	own, _ := o.watchLine()
	e.act(o, ref)
	r.await(driver.Changed)
	if e.name != "AnExpiry" { // of a session that is over nothing is promised
		own.await(driver.Changed)
	}
}

// aspectOverCut: what came while a client was cut off is told after it, and so
// is what comes then.
func aspectOverCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, by := w.open(), w.open()
		r, _ := by.watchLine()
		by.c.Cut(d)
		e := o.join(line).Entry
		time.Sleep(w.h.TTL / 20) // cut off for a while, and not long enough to expire
		by.c.Heal()
		r.awaitNews(func(rev int64) bool { return by.sees(e.Ref, rev) })
		o.leave(e.Ref)
		r.awaitNews(func(rev int64) bool { return !by.sees(e.Ref, rev) })
	}
}

func aspectBegunCut(w *fixture) {
	o, by := w.open(), w.open()
	r := by.watchWhileCut(driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLine})
	e := o.join(line).Entry
	r.awaitNews(func(rev int64) bool { return by.sees(e.Ref, rev) })
}

func aspectCanceled(w *fixture) {
	o, by := w.open(), w.open()
	silent, stop := by.watchLine()
	still, _ := by.watchLine()
	stop()
	stop()
	o.join(line)
	still.await(driver.Changed)
	assert.Len(w.t, silent.all(), 1, "nothing after cancel")
}

// aspectGoesOn: the end of the last entry is not the end of the watch.
func aspectGoesOn(w *fixture) {
	o, by := w.open(), w.open()
	r, _ := by.watchLine()
	for range 3 {
		e := o.join(line).Entry
		r.awaitNews(func(rev int64) bool { return by.sees(e.Ref, rev) })
		o.leave(e.Ref)
		r.awaitNews(func(rev int64) bool { return !by.sees(e.Ref, rev) })
	}
}
