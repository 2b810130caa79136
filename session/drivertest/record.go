package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// granted is the time that these stories record.
func granted() time.Time { return time.UnixMilli(1_800_000_000_123) }

// record: an owner records at the service since when its entry holds.
func record() []story {
	return []story{
		{"ListShowsSinceWhenAnEntryHolds", recordShown},
		{"ARecordGoesWithItsEntry", recordGoes},
		{"ARecordIsNoEvent", recordSilent},
		{"ARecordStaysWithASharedEntry", recordShared},
		{"ALeaveThatRacesARecordLeavesNothing", recordRaces},
	}
}

// record records a grant, or ends the story.
func (o *owner) record(ref driver.Ref, at time.Time) {
	o.w.t.Helper()
	require.NoError(o.w.t, o.Record(o.w.soon(), ref, at), "Record")
}

// kinds are requests for entries of every kind.
func kinds() []driver.JoinRequest {
	return []driver.JoinRequest{
		{Line: line}, exclusive(), {Line: line, Mode: driver.Shared, Kin: driver.KinReadWrite}, valued("10.0.0.7:80"), weighted(2),
	}
}

// recordShown records the grants of all entries but the last.
func recordShown(w *world) {
	for _, req := range kinds() {
		o, reader := w.open(), w.open()
		a, b, c := o.joinWith(req).Entry, o.joinWith(req).Entry, o.joinWith(req).Entry
		o.record(a.Ref, granted())
		o.record(b.Ref, granted().Add(time.Minute))
		o.record(a.Ref, granted().Add(time.Hour))

		all := w.list(reader.c, line)
		require.Equal(w.t, []driver.Ref{a.Ref, b.Ref, c.Ref}, refs(all))
		assert.True(w.t, granted().Equal(all[0].Granted), "the first call counts, not %v", all[0].Granted)
		assert.True(w.t, granted().Add(time.Minute).Equal(all[1].Granted), "%v", all[1].Granted)
		assert.Zero(w.t, all[2].Granted)
		assert.Equal(w.t, req.Value, all[0].Value)
		assert.Equal(w.t, req.Meta, all[0].Meta)
		first, err := reader.c.Backend().List(w.ctx, line, 1)
		require.NoError(w.t, err)
		assert.Equal(w.t, all[:1], first)
		require.NoError(w.t, o.end())
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "the line is empty again")
	}
}

// recordGoes: a later entry, often with the same key, has no record.
func recordGoes(w *world) {
	for _, req := range kinds() {
		o := w.open()
		for _, end := range []func(ref driver.Ref){
			func(ref driver.Ref) { o.leave(ref) },
			func(ref driver.Ref) { w.svc.Delete(w.t, ref) },
			func(ref driver.Ref) { assert.NoError(w.t, w.evict(o.c, driver.Entry{Ref: ref})) },
		} {
			e := o.joinWith(req).Entry
			o.record(e.Ref, granted())
			end(e.Ref)
			w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "it is gone")
			again := o.joinWith(req).Entry
			assert.Zero(w.t, w.list(o.c, line)[0].Granted)
			o.leave(again.Ref)
		}
		require.NoError(w.t, o.end())
	}
}

// recordSilent: no watch reports a record, whatever it asks for.
func recordSilent(w *world) {
	o, waiter := w.open(), w.open()
	e := o.join(line).Entry
	waiter.join(line)
	var quiet []*recorder
	for _, req := range []driver.WatchRequest{
		{Ref: e.Ref}, {Ref: e.Ref, Tell: true}, {Ref: driver.Ref{Line: line}, Of: driver.OfAdmitted}, {Ref: driver.Ref{Line: line}, Of: driver.OfLimit},
	} {
		r, _ := waiter.armed("entry ahead", req)
		quiet = append(quiet, r)
	}
	o.record(e.Ref, granted())
	last, _ := waiter.armed("a later end", driver.WatchRequest{Ref: o.join("elsewhere").Entry.Ref})
	w.svc.Delete(w.t, w.list(o.c, "elsewhere")[0].Ref)
	last.await(driver.Gone)

	for _, r := range quiet {
		for _, ev := range r.all() {
			assert.NotContains(w.t, []driver.EventKind{driver.Changed, driver.Gone}, ev.Kind)
		}
	}
}

func recordShared(w *world) {
	o := w.open()
	e := o.joinWith(exclusive()).Entry
	o.record(e.Ref, granted())
	ref := o.share(e.Ref)
	assert.True(w.t, granted().Equal(w.list(o.c, line)[0].Granted), "it holds since then")
	o.leave(ref)
	w.count(0, line, "it is gone")
	o.leave(o.joinWith(exclusive()).Entry.Ref)
}

// recordRaces has an entry recorded and left at the same time, again and again.
// None of the two waits for the other.
func recordRaces(w *world) {
	o := w.open()
	for range 20 {
		e := o.join(line).Entry
		recorded := make(chan error, 1)
		go func() { recorded <- o.Record(w.ctx, e.Ref, granted()) }()
		o.leave(e.Ref)
		if err := <-recorded; err != nil {
			require.ErrorIs(w.t, err, driver.ErrGone)
		}
		again := o.join(line).Entry
		assert.Zero(w.t, w.list(o.c, line)[0].Granted)
		o.leave(again.Ref)
	}
}
