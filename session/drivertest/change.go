package drivertest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// change: what all requests have in common that change an entry, or what lies
// beside its line.
func change() []story {
	var all []story
	for _, c := range changes() {
		all = append(all,
			story{c.name + "TwiceIsLikeOnce", func(w *world) { changeTwice(w, c) }},
			story{c.name + "CutShortIsFinishedByTheNext", func(w *world) { changeCutShort(w, c) }},
			story{c.name + "ReturnsWhileCut", func(w *world) { changePrompt(w, c) }},
			story{c.name + "DoesNothingWhenItComesLate", func(w *world) { changeLate(w, c) }},
		)
		if c.ofEntry {
			all = append(all, story{c.name + "OfAnEntryThatIsGoneSaysSo", func(w *world) { changeGone(w, c) }})
		}
		all = append(all, over(c.name+"SurvivesA%v", fault.Retryable(), func(w *world, f fault.Kind) { changeSurvives(w, c, f) })...)
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

func changeTwice(w *world, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	c.changed(o, e)
	c.done(o, c.changed(o, e))
}

func changeSurvives(w *world, c changing, f fault.Kind) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	o.c.Inject(fault.Change, f)
	c.done(o, c.changed(o, e))
}

// changeCutShort: the first call may have done it and never knew.
func changeCutShort(w *world, c changing) {
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

func changePrompt(w *world, c changing) {
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
func changeLate(w *world, c changing) {
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

func changeGone(w *world, c changing) {
	o := w.open()
	e := o.joinWith(c.req).Entry
	w.svc.Delete(w.t, e.Ref)
	again := o.joinWith(c.req).Entry // often with the same key
	require.ErrorIs(w.t, c.call(w.ctx, o, e.Ref), driver.ErrGone)
	c.done(o, c.changed(o, again))
}
