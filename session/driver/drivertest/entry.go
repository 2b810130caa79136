package drivertest

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// data: what an owner stores in its entry, and next to it.
func data() []testCase {
	return []testCase{
		{"AReadShowsWhatAnEntryWasJoinedWith", entryShown},
		{"AWriteChangesTheDataInItsPlace", dataWritten},
		{"DataMayBeAsLargeAsInfoAllows", dataLarge},
		{"ADetailIsReplacedAndIsNoEvent", detailReplaced},
		{"AnUpdateOfAnEntryThatIsGoneDoesNothing", updateGone},
	}
}

func entryShown(w *fixture) {
	o, by := w.open(), w.open()
	reqs := kinds()
	for _, v := range []string{"\x00\xff", "{", `{"v":1,"kind":"mutex"}`, "", "nächtlich"} {
		for _, req := range []driver.JoinRequest{plain(), valued("")} {
			req.Data, req.Detail = []byte(v), []byte("of "+v)
			reqs = append(reqs, req)
		}
	}
	for _, req := range reqs {
		e := o.joinWith(req).Entry
		assert.Equal(w.t, req.Mode, e.Mode, "the join's own answer")
		assert.Equal(w.t, req.Weight, e.Weight)
		want := driver.Entry{Ref: e.Ref, Mode: req.Mode, Weight: req.Weight, Valued: req.Valued, Token: e.Token, Session: o.ID()}
		got := by.only(queue)
		assert.Equal(w.t, string(req.Data), string(got.Data), "as it is")
		assert.Equal(w.t, string(req.Detail), string(got.Detail), "as it is")
		assert.Equal(w.t, req.Mode == driver.Shared, got.Shares())
		got.Data, got.Detail = nil, nil
		assert.Equal(w.t, want, got)
		short := by.read(driver.ReadRequest{Queue: queue}).Entries[0]
		assert.Equal(w.t, []any{req.Mode, req.Weight, false}, []any{short.Mode, short.Weight, short.Foreign}, "every answer shows these")
		o.leave(e.Ref)
	}
}

func dataWritten(w *fixture) {
	o, other := w.open(), w.open()
	e := o.joinWith(valued("old")).Entry
	other.joinWith(valued("second"))
	before := o.list(queue)
	for _, v := range []string{"new", "\x00", "newer"} {
		o.write(e.Ref, v)
		before[0].Data = []byte(v)
		assert.Equal(w.t, before, other.list(queue), "all else stays")
	}
	require.NoError(w.t, o.end())
	w.count(1, queue, "an entry that was written ends with its session too")
}

func dataLarge(w *fixture) {
	o := w.open()
	large := bytes.Repeat([]byte{0xf1}, o.c.Backend().Info().MaxData)
	detail := bytes.Repeat([]byte{0xf2}, 2<<10)
	for _, req := range []driver.JoinRequest{plain(), valued("")} {
		req.Data, req.Detail = large, detail
		e := o.joinWith(req).Entry
		got := o.only(queue)
		assert.True(w.t, bytes.Equal(large, got.Data), "%d bytes of %d", len(got.Data), len(large))
		assert.True(w.t, bytes.Equal(detail, got.Detail), "%d bytes of %d", len(got.Detail), len(detail))
		if req.Valued {
			large[0]++
			o.write(e.Ref, string(large))
			assert.True(w.t, bytes.Equal(large, o.only(queue).Data), "and written")
		}
		o.leave(e.Ref)
	}
	o.set("done", strings.Repeat("x", 6<<10))
	assert.Len(w.t, o.value("done"), 6<<10, "a record of some KiB")
}

// detailReplaced: of an entry of each kind. No watch reports it.
func detailReplaced(w *fixture) {
	if w.h.NoOptional {
		w.t.Skip("the service refuses details: Harness.NoOptional")
	}
	o, by := w.open(), w.open()
	for _, req := range kinds() {
		a, b := o.joinWith(req).Entry.Ref, o.joinWith(req).Entry.Ref
		quiet := []*recorder{o.armedEntry("own entry", a), by.armedEntry("entry", a), by.armedAt(ofHolders()), by.armedAt(ofRecord("limit"))}
		last := by.armedEntry("a later end", b)
		want := o.list(queue)
		for _, detail := range []string{"once", "twice", strings.Repeat("x", 2<<10)} {
			o.describe(a, detail)
			want[0].Detail = []byte(detail)
			assert.Equal(w.t, want, o.list(queue), "all else stays")
		}
		assert.Equal(w.t, want, by.list(queue))
		o.leave(b)
		last.awaitGone()
		for _, r := range quiet {
			r.silent("a detail is no event")
		}
		o.leave(a)
	}
}

// updateGone: an Update of an entry that is gone, which a later one often has the key of.
func updateGone(w *fixture) {
	o := w.open()
	for what, req := range map[string]driver.UpdateRequest{
		"marks":       {Marks: driver.MarkAdmitted},
		"data":        {Data: []byte("new")},
		"detail":      {Detail: []byte("new")},
		"a record":    {Ops: []driver.Op{op("slot/0", driver.Absent(), "mine")}},
		"an optional": {Ops: []driver.Op{optional(op("slot/0", driver.Absent(), "mine"))}},
	} {
		for _, e := range byOthers() {
			join := valued("v")
			if req.Marks != 0 {
				join = weighted(1)
			}
			req.Queue, req.Entry = queue, o.joinWith(join).Entry.Ref
			e.end(o, req.Entry)
			again := o.joinWith(join).Entry // often with the same key
			before := o.only(queue)
			_, err := o.Update(w.soon(), req)
			require.ErrorIs(w.t, err, driver.ErrGone, "%s", what)
			assert.Equal(w.t, before, o.only(queue), "%s", what)
			assert.Empty(w.t, o.value("slot/0"), "%s", what)
			o.leave(again.Ref)
		}
	}
}

// marks: an owner adds a mark to its entry, which keeps its place and its key, and all
// that watch the entry are notified.
func marks() []testCase {
	return append(over("AMarkGoesWithItsEntryBy%v", endings(), markGoes), []testCase{
		{"AMarkedEntryKeepsAllButItsMark", markInPlace},
		{"AMarkedEntryIsNeverAbsent", markNeverAbsent},
		{"AMarkIsReported", markReported},
		{"OneUpdateAddsAMarkAndWritesASlot", markWithOps},
	}...)
}

// marked are the marks, and the requests for entries that get them.
func marked() map[driver.Marks]driver.JoinRequest {
	return map[driver.Marks]driver.JoinRequest{driver.MarkShared: writer(), driver.MarkAdmitted: weighted(2)}
}

func markInPlace(w *fixture) {
	a, b := w.open(), w.open()
	for m, req := range marked() {
		req.Detail = []byte("detail")
		first, second := a.joinWith(req).Entry.Ref, b.joinWith(req).Entry.Ref
		before := b.list(queue)
		require.Equal(w.t, []driver.Ref{first, second}, refs(before))
		before[0].Marks = m
		for range 2 {
			a.mark(first, m)
			after := b.list(queue)
			assert.Equal(w.t, before, after, "place, key, mode, token, session, data and detail stay, and all other entries")
			assert.Equal(w.t, m == driver.MarkShared, after[0].Shares())
			v := b.read(driver.ReadRequest{Queue: queue, Upto: second.Place, Nearest: 1, Marks: true})
			assert.Equal(w.t, []driver.Marks{m, 0}, []driver.Marks{v.Entries[0].Marks, v.Entries[1].Marks}, "without details")
		}
		a.leave(first)
		b.leave(second)
	}
}

// markNeverAbsent: others read as fast as they can while an entry is marked.
func markNeverAbsent(w *fixture) {
	o, by := w.open(), w.open()
	for m, req := range marked() {
		e := o.joinWith(req).Entry
		own := by.joinWith(req).Entry
		r := by.armedEntry("entry ahead", e.Ref)
		done := make(chan struct{})
		var reads sync.WaitGroup
		reads.Go(func() {
			for over := false; !over; {
				v, err := by.Read(w.ctx, driver.ReadRequest{Queue: queue, Upto: own.Place, Detail: true})
				if !assert.NoError(w.t, err) || !assert.Equal(w.t, []driver.Ref{e.Ref, own.Ref}, refs(v.Entries), "no read lacks it") {
					return
				}
				assert.Equal(w.t, e.Token, v.Entries[0].Token)
				select {
				case <-done:
					over = true
				case <-time.After(w.short / 5000): // so that virtual time goes on
				}
			}
		})
		o.c.Delay(w.short / 50)
		o.mark(e.Ref, m)
		o.c.Heal()
		r.awaitMarks(m)
		close(done)
		reads.Wait()
		o.leave(e.Ref)
		by.leave(own.Ref)
	}
}

// markReported: by Changed to watches that there are, by Armed to those that begin then.
func markReported(w *fixture) {
	o, by := w.open(), w.open()
	for m, req := range marked() {
		e := o.joinWith(req).Entry.Ref
		watches := []*recorder{by.armedEntry("entry ahead", e), o.armedEntry("own entry", e), w.observe().armedEntry("entry", e)}
		o.mark(e, m)
		for _, r := range watches {
			r.awaitChange(m, func() bool { return true })
			late := r.o.armedEntry(r.what+", later", e)
			assert.Equal(w.t, driver.Event{Kind: driver.Armed, Marks: m}, late.all()[0], "%s", late.what)
		}
		o.leave(e)
		for _, r := range watches {
			r.awaitGone()
		}
	}
}

// markGoes: the end of a marked entry is reported, and a later one, often with the same
// key, has no mark of it.
func markGoes(w *fixture, e ending) {
	for m, req := range marked() {
		o, by := w.open(), w.open()
		ref := o.joinWith(req).Entry.Ref
		o.mark(ref, m)
		own, r := o.armedEntry("own entry", ref), by.armedEntry("entry of another", ref)
		e.end(o, ref)
		r.awaitGone()
		w.count(0, queue, "nothing of it stays")
		if e.name == "Leave" || e.name == "Deletion" {
			own.awaitGone()
			o.went([]driver.Left{driver.WasGone}, "again", leaves(ref)...)
		} else {
			o = by
		}
		again := o.joinWith(req)
		checkView(w, again, nil)
		assert.Equal(w.t, again.Entry.Ref, o.only(queue).Ref)
		assert.Zero(w.t, o.only(queue).Marks)
		assert.Zero(w.t, o.armedEntry("later entry", again.Entry.Ref).all()[0].Marks)
		o.leave(again.Entry.Ref)
	}
}

// markWithOps: all of it is done, or nothing.
func markWithOps(w *fixture) {
	o := w.open()
	ref := o.joinWith(weighted(2)).Entry.Ref
	req := driver.UpdateRequest{
		Queue: queue, Entry: ref, Marks: driver.MarkAdmitted, Detail: []byte("granted"),
		Ops: []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))},
	}
	o.set("slot/0", "taken")
	_, err := o.Update(w.soon(), req)
	checkRefused(w, err, req.Ops[0], o.record(queue, "slot/0"))
	assert.Zero(w.t, o.only(queue).Marks)
	assert.Empty(w.t, o.only(queue).Detail)

	o.set("slot/0", "")
	assert.True(w.t, o.update(req)[0].Done)
	assert.Equal(w.t, driver.MarkAdmitted, o.only(queue).Marks)
	assert.Equal(w.t, "mine", o.value("slot/0"))
	assert.Equal(w.t, w.h.NoOptional, string(o.only(queue).Detail) != "granted")
}
