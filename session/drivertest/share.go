package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// share: a writer becomes a reader in its place.
func share() []testCase {
	return []testCase{
		{"AnEntryIsSharedInItsPlace", shareInPlace},
		{"ASharedEntryIsNeverAbsent", shareNeverAbsent},
		{"TheAnswerSaysByWhenItShows", shareDated},
		{"WhoStandsBehindIsTold", shareTold},
		{"WhoStandsBehindIsToldOverACut", shareOverCut},
		{"ASharedEntryIsWatchedAndLeft", shareLeft},
		{"ASharedEntryDiesWithItsSession", shareDies},
		{"AnEntryThatJoinedSharedStaysAsItIs", shareShared},
	}
}

func (o *owner) share(ref driver.Ref) driver.Ref {
	o.w.t.Helper()
	turned, err := o.Share(o.w.soon(), ref)
	require.NoError(o.w.t, err, "Share")
	after := turned.Ref
	require.Equal(o.w.t, ref.Line, after.Line)
	require.Equal(o.w.t, ref.Place, after.Place, "it keeps its place")
	if !o.c.Backend().Profile().Moves {
		require.Equal(o.w.t, ref, after, "another name only where Profile.Moves")
	}
	return after
}

func shareInPlace(w *fixture) {
	a, b, c := w.open(), w.open(), w.open()
	first, own, last := a.joinWith(exclusive()).Entry, b.joinWith(exclusive()).Entry, c.joinWith(exclusive()).Entry
	before := w.list(a.c, line)
	require.Equal(w.t, []driver.Ref{first.Ref, own.Ref, last.Ref}, refs(before))
	after := b.share(own.Ref)
	assert.Equal(w.t, after, b.share(after), "a second call, by the new name")

	list := w.list(a.c, line)
	require.Equal(w.t, []driver.Ref{first.Ref, after, last.Ref}, refs(list))
	for i, mode := range []driver.Mode{driver.Exclusive, driver.Shared, driver.Exclusive} {
		assert.Equal(w.t, mode, list[i].Mode, "entry %d", i)
		assert.Equal(w.t, before[i].Token, list[i].Token, "entry %d keeps its token", i)
		assert.Equal(w.t, before[i].Session, list[i].Session)
		assert.Equal(w.t, before[i].Meta, list[i].Meta)
	}
	v := b.look(driver.LookRequest{Line: line, Upto: own.Place})
	require.Equal(w.t, []driver.Ref{first.Ref, after}, refs(v.Entries))
	assert.Equal(w.t, driver.Shared, v.Entries[1].Mode, "a look shows it too")
}

// shareDated: looks that are not older than the answer show what was done,
// whoever makes them.
func shareDated(w *fixture) {
	o, by := w.open(), w.open()
	for range 3 {
		e := o.joinWith(exclusive()).Entry
		own := by.joinWith(exclusive()).Entry
		r, _ := by.armed("entry ahead", driver.WatchRequest{Ref: e.Ref, Changes: true, Tell: true})
		turned, err := o.Share(w.ctx, e.Ref)
		require.NoError(w.t, err, "Share")
		again, err := o.Share(w.ctx, turned.Ref)
		require.NoError(w.t, err, "Share")
		assert.Equal(w.t, turned.Ref, again.Ref)
		ev := r.await(driver.Changed, driver.Gone)
		for _, rev := range []int64{turned.Rev, again.Rev} {
			shows := by
			if rev == 0 {
				shows = o
			} else {
				assert.GreaterOrEqual(w.t, rev, ev.Rev)
			}
			v := shows.look(driver.LookRequest{Line: line, Upto: own.Place, NotBefore: rev})
			require.Equal(w.t, []driver.Ref{turned.Ref, own.Ref}, refs(v.Entries))
			assert.Equal(w.t, driver.Shared, v.Entries[0].Mode)
		}
		by.leave(own.Ref)
		o.leave(turned.Ref)
	}
}

// shareNeverAbsent: others look as fast as they can while an entry is shared.
func shareNeverAbsent(w *fixture) {
	o, by := w.open(), w.open()
	for range 3 {
		e := o.joinWith(exclusive()).Entry
		own := by.joinWith(exclusive())
		by.meet(e.Ref)
		done := make(chan struct{})
		var looks sync.WaitGroup
		looks.Go(func() {
			for over := false; !over; {
				v, err := by.Look(w.ctx, driver.LookRequest{Line: line, Upto: own.Entry.Place, NotBefore: own.Rev})
				if !assert.NoError(w.t, err) {
					return
				}
				places := make([]int64, 0, 2)
				for _, e := range v.Entries {
					places = append(places, e.Place)
				}
				assert.Contains(w.t, places, e.Place, "nobody sees the line without it")
				select {
				case <-done:
					over = true
				case <-time.After(w.h.TTL / 5000): // so that virtual time goes on
				}
			}
		})
		o.c.Delay(w.h.TTL / 50)
		after := o.share(e.Ref)
		o.c.Heal()
		close(done)
		looks.Wait()
		by.leave(own.Entry.Ref)
		o.leave(after)
	}
}

func shareTold(w *fixture) {
	o, by := w.open(), w.open()
	e := o.joinWith(exclusive()).Entry
	own := by.joinWith(exclusive()).Entry
	r, _ := by.armed("entry ahead", driver.WatchRequest{Ref: e.Ref, Changes: true, Tell: true})
	after := o.share(e.Ref)

	ev := r.await(driver.Changed, driver.Gone)
	if o.c.Backend().Profile().Moves {
		assert.Equal(w.t, driver.Gone, ev.Kind, "the old name")
	} else {
		assert.Equal(w.t, driver.Changed, ev.Kind)
	}
	assert.False(w.t, ev.Held, "it gave nothing back")
	v := by.look(driver.LookRequest{Line: line, Upto: own.Place, NotBefore: ev.Rev})
	require.Equal(w.t, []driver.Ref{after, own.Ref}, refs(v.Entries), "a look after the event shows it")
	assert.Equal(w.t, driver.Shared, v.Entries[0].Mode)
}

func shareOverCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, by := w.open(), w.open()
		e := o.joinWith(exclusive()).Entry
		own := by.joinWith(exclusive()).Entry
		r, _ := by.armed("entry ahead", driver.WatchRequest{Ref: e.Ref, Changes: true, Tell: true})
		by.c.Cut(d)
		after := o.share(e.Ref)
		by.c.Heal()
		for {
			ev := r.await(driver.Changed, driver.Gone, driver.Armed)
			assert.False(w.t, ev.Held, "it gave nothing back")
			v := by.look(driver.LookRequest{Line: line, Upto: own.Place, NotBefore: ev.Rev})
			if slices.ContainsFunc(v.Entries, func(e driver.Entry) bool { return e.Mode == driver.Shared }) {
				break
			}
			require.Equal(w.t, driver.Armed, ev.Kind, "after any other event it shows")
		}
		by.leave(own.Ref)
		o.leave(after)
	}
}

func shareLeft(w *fixture) {
	o, by := w.open(), w.open()
	for range 2 { // often with the same keys
		after := o.share(o.joinWith(exclusive()).Entry.Ref)
		own, _ := o.armed("own entry", driver.WatchRequest{Ref: after, Own: true})
		r, _ := by.armed("entry of another", driver.WatchRequest{Ref: after})
		o.leave(after)
		own.await(driver.Gone)
		r.await(driver.Gone)
		w.count(0, line, "nothing is left of it")
		require.ErrorIs(w.t, o.leaveErr(after), driver.ErrGone)
	}
	after := o.share(o.joinWith(exclusive()).Entry.Ref)
	own, _ := o.armed("own entry", driver.WatchRequest{Ref: after, Own: true})
	w.svc.Delete(w.t, after)
	own.await(driver.Gone)
	_, err := o.Share(w.ctx, after)
	require.ErrorIs(w.t, err, driver.ErrGone)
}

func shareDies(w *fixture) {
	o, by := w.open(), w.open()
	after := o.share(o.joinWith(exclusive()).Entry.Ref)
	r, _ := by.armed("entry of another", driver.WatchRequest{Ref: after})
	w.svc.Expire(w.t, o.ID())
	r.await(driver.Gone)
	w.count(0, line, "its session is over")
}

func shareShared(w *fixture) {
	o := w.open()
	req := exclusive()
	req.Mode = driver.Shared
	e := o.joinWith(req).Entry
	assert.Equal(w.t, e.Ref, o.share(e.Ref), "it is shared already")
	list := w.list(o.c, line)
	require.Equal(w.t, []driver.Ref{e.Ref}, refs(list))
	assert.Equal(w.t, driver.Shared, list[0].Mode)
	assert.Equal(w.t, e.Token, list[0].Token)
}
