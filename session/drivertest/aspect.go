package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// aspect: a whole line is watched, also one that is empty.
func aspect() []story {
	all := []story{
		{"ALineIsWatchedOverACut", aspectOverCut},
		{"ALineIsWatchedBegunWhileCut", aspectBegunCut},
		{"ACanceledWatchOfALineIsSilent", aspectCanceled},
		{"AWatchOfALineGoesOnAfterItIsEmpty", aspectGoesOn},
	}
	for _, e := range happenings() {
		all = append(all, story{e.name + "IsToldToWhoWatchesTheLine", func(w *world) { aspectTold(w, e) }})
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

func aspectTold(w *world, e happening) {
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
func aspectOverCut(w *world) {
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

func aspectBegunCut(w *world) {
	o, by := w.open(), w.open()
	r := by.watchWhileCut(driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLine})
	o.join(line)
	r.await(driver.Changed)
}

func aspectCanceled(w *world) {
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
func aspectGoesOn(w *world) {
	o, by := w.open(), w.open()
	r, _ := by.watchLine()
	for range 3 {
		e := o.join(line).Entry
		r.awaitNews(func(rev int64) bool { return by.sees(e.Ref, rev) })
		o.leave(e.Ref)
		r.awaitNews(func(rev int64) bool { return !by.sees(e.Ref, rev) })
	}
}
