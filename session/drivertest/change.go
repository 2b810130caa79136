package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// change: what all requests have in common that change an entry, or what lies
// beside its line.
func change() []testCase {
	var all []testCase
	for _, c := range changes() {
		all = append(all,
			testCase{c.name + "TwiceIsLikeOnce", func(w *fixture) { changeTwice(w, c) }},
			testCase{c.name + "CutShortIsFinishedByTheNext", func(w *fixture) { changeCutShort(w, c) }},
			testCase{c.name + "ReturnsWhileCut", func(w *fixture) { changePrompt(w, c) }},
			testCase{c.name + "DoesNothingWhenItComesLate", func(w *fixture) { changeLate(w, c) }},
		)
		if c.ofEntry {
			all = append(all, testCase{c.name + "OfAnEntryThatIsGoneSaysSo", func(w *fixture) { changeGone(w, c) }})
		}
		all = append(all, over(c.name+"SurvivesA%v", fault.Retryable(), func(w *fixture, f fault.Kind) { changeSurvives(w, c, f) })...)
	}
	return all
}

// changing is one such request: how the entry is made, the call, and the one
// state that any number of calls leads to.
type changing struct {
	name    string
	ofEntry bool
	req     driver.JoinRequest
	call    func(ctx context.Context, o *owner, ref driver.Ref) error
	done    func(o *owner, e driver.Entry) // e as List shows it
}

// exclusive, weighted and valued are requests of a read-write lock, a semaphore
// and an election.
func exclusive() driver.JoinRequest {
	return driver.JoinRequest{Line: line, Kin: driver.KinReadWrite}
}

func weighted(limit int64) driver.JoinRequest {
	return driver.JoinRequest{Line: line, Mode: driver.Weighted, Weight: 1, Limit: limit}
}

func valued(value string) driver.JoinRequest {
	return driver.JoinRequest{Line: line, Value: []byte(value), Meta: driver.Meta{Kind: "election", Host: "web-2"}}
}

func changes() []changing {
	return []changing{
		{name: "Share", ofEntry: true, req: exclusive(), call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			_, err := o.Share(ctx, ref)
			return err
		}, done: func(o *owner, e driver.Entry) {
			assert.Equal(o.w.t, driver.Shared, e.Mode)
		}},
		{name: "Admit", ofEntry: true, req: weighted(2), call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			return o.Admit(ctx, ref)
		}, done: func(o *owner, e driver.Entry) {
			assert.True(o.w.t, e.Admitted)
		}},
		{name: "Record", ofEntry: true, req: driver.JoinRequest{Line: line}, call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			return o.Record(ctx, ref, granted())
		}, done: func(o *owner, e driver.Entry) {
			assert.True(o.w.t, granted().Equal(e.Granted), "%v", e.Granted)
		}},
		{name: "Claim", ofEntry: true, req: weighted(2), call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			n, err := o.Claim(ctx, ref)
			if err == nil && n.N != 0 {
				return fmt.Errorf("number %d, want 0", n.N)
			}
			return err
		}, done: func(o *owner, _ driver.Entry) {
			assert.Equal(o.w.t, 1, o.claim(o.joinWith(weighted(2)).Entry.Ref), "one number was claimed")
		}},
		{name: "Write", ofEntry: true, req: valued("old"), call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			return o.Write(ctx, ref, []byte("new"))
		}, done: func(o *owner, e driver.Entry) {
			assert.Equal(o.w.t, "new", string(e.Value))
		}},
		{name: "Enter", ofEntry: true, req: driver.JoinRequest{Line: line}, call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			past, err := o.Enter(ctx, ref)
			if err == nil && past != driver.PastClean {
				return fmt.Errorf("past %d, want PastClean", past)
			}
			return err
		}, done: func(o *owner, e driver.Entry) {
			o.leaveWith(driver.LeaveRequest{Ref: e.Ref}) // without Clean
			assert.Equal(o.w.t, driver.PastDied, o.enter(o.join(line).Entry.Ref), "its name was entered")
		}},
		{name: "MarkDone", ofEntry: true, req: driver.JoinRequest{Line: line}, call: func(ctx context.Context, o *owner, ref driver.Ref) error {
			return o.MarkDone(ctx, ref, adding("a"))
		}, done: func(o *owner, _ driver.Entry) {
			assert.Equal(o.w.t, "a", o.doneIn(line), "once")
		}},
		{name: "SetLimit", req: driver.JoinRequest{Line: line}, call: func(ctx context.Context, o *owner, _ driver.Ref) error {
			return o.SetLimit(ctx, line, 7)
		}, done: func(o *owner, _ driver.Entry) {
			assert.EqualValues(o.w.t, 7, o.w.limit(o.c))
		}},
	}
}

// changed makes a change that must succeed, and returns the entry as it is then.
func (c changing) changed(o *owner, before driver.Entry) driver.Entry {
	w := o.w
	w.t.Helper()
	require.NoError(w.t, c.call(w.soon(), o, before.Ref), c.name)
	all := w.list(o.c, line)
	require.Len(w.t, all, 1, "nothing comes and nothing goes")
	assert.Equal(w.t, before.Place, all[0].Place, "it keeps its place")
	assert.Equal(w.t, before.Token, all[0].Token, "and its token")
	return all[0]
}

func changeTwice(w *fixture, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	c.changed(o, e)
	c.done(o, c.changed(o, e))
}

func changeSurvives(w *fixture, c changing, f fault.Kind) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	o.c.Inject(fault.Change, f)
	c.done(o, c.changed(o, e))
}

// changeCutShort: the first call may have done it and never knew.
func changeCutShort(w *fixture, c changing) {
	for _, d := range fault.Directions() {
		o := w.open()
		e := o.joinWith(c.req).Entry
		o.c.Cut(d)
		err := c.call(w.within(w.h.TTL/20), o, e.Ref)
		require.Error(w.t, err, "unknown")
		require.NotErrorIs(w.t, err, driver.ErrGone, "unknown is not gone")
		o.c.Heal()
		after := c.changed(o, e)
		c.done(o, after)
		require.NoError(w.t, o.end())
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "the line is empty again")
		if c.name == "Enter" {
			o = w.open() // the next begins with a clean ledger
			o.giveBack(o.hold().ref)
			require.NoError(w.t, o.end())
		}
	}
}

func changePrompt(w *fixture, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	o.c.Cut(fault.Both)
	ctx := w.within(w.h.TTL / 20)
	var err error
	w.prompt(o.c, c.name, ctx.Done(), func() { err = c.call(ctx, o, e.Ref) })
	require.Error(w.t, err)
	require.NotErrorIs(w.t, err, driver.ErrGone)
	o.c.Heal()
}

// changeLate: the first copy of a request arrives when the second has been
// answered, and the entry has been left.
func changeLate(w *fixture, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	o.c.Inject(fault.Change, fault.LateRequest)
	after := c.changed(o, e)
	o.leaveWith(driver.LeaveRequest{Ref: after.Ref, Clean: true})
	again := o.joinWith(c.req).Entry // often with the same key
	o.c.Deliver()

	all := w.list(o.c, line)
	require.Equal(w.t, []driver.Ref{again.Ref}, refs(all))
	assert.Equal(w.t, again.Mode, all[0].Mode)
	assert.Equal(w.t, c.req.Value, all[0].Value)
	assert.False(w.t, all[0].Admitted)
	assert.Zero(w.t, all[0].Granted, "a later entry has no record of an earlier one")
	c.done(o, c.changed(o, again))
}

func changeGone(w *fixture, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	w.svc.Delete(w.t, e.Ref)
	again := o.joinWith(c.req).Entry // often with the same key
	require.ErrorIs(w.t, c.call(w.ctx, o, e.Ref), driver.ErrGone)
	c.done(o, c.changed(o, again))
}

// granted is the time that these cases record.
func granted() time.Time { return time.UnixMilli(1_800_000_000_123) }

// record: an owner records at the service since when its entry holds.
func record() []testCase {
	return []testCase{
		{"ListShowsSinceWhenAnEntryHolds", recordShown},
		{"ARecordGoesWithItsEntry", recordGoes},
		{"ARecordIsNoEvent", recordSilent},
		{"ARecordStaysWithASharedEntry", recordShared},
		{"ALeaveThatRacesARecordLeavesNothing", recordRaces},
	}
}

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
func recordShown(w *fixture) {
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
func recordGoes(w *fixture) {
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
func recordSilent(w *fixture) {
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

func recordShared(w *fixture) {
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
func recordRaces(w *fixture) {
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
