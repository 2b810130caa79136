package drivertest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// lost: one request or one reply is lost, and the backend finds out what
// happened by itself, as long as its context lets it.
func lost() []testCase {
	return slices.Concat(
		over("AJoinSurvivesA%v", fault.Retryable(), joinSurvives),
		over("AJoinIfEmptySurvivesA%v", fault.Retryable(), ifEmptySurvives),
		over("ALeaveSurvivesA%v", fault.Retryable(), leaveSurvives),
		over("ReadsSurviveA%v", fault.Retryable(), readsSurvive),
		over("OpenSurvivesA%v", fault.Retryable(), openSurvives),
		over("CloseSurvivesA%v", fault.Retryable(), closeSurvives),
		[]testCase{
			{"ALeaveCutShortIsFinishedByTheNext", leaveCutShort},
			{"SlowRepliesAreWaitedFor", slowReplies},
		},
	)
}

func joinSurvives(w *fixture, f fault.Kind) {
	holder, o := w.open(), w.open()
	first := holder.join(line).Entry
	o.c.Inject(fault.Join, f)
	j := o.join(line)

	assert.Equal(w.t, 1, j.Ahead)
	assert.Equal(w.t, []driver.Ref{first.Ref, j.Entry.Ref}, refs(w.list(o.c, line)), "exactly one entry of this join")
	again := o.join(line)
	assert.Equal(w.t, 2, again.Ahead)
	o.leave(again.Entry.Ref)
	o.leave(j.Entry.Ref)
	assert.Equal(w.t, []driver.Ref{first.Ref}, refs(w.list(o.c, line)), "nothing is left of it")
}

// ifEmptySurvives: whoever asks again must not take its own entry for another's.
func ifEmptySurvives(w *fixture, f fault.Kind) {
	o := w.open()
	o.c.Inject(fault.Join, f)
	j := o.joinWith(driver.JoinRequest{Line: line, IfEmpty: true})
	assert.Zero(w.t, j.Ahead)
	assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(w.list(o.c, line)))

	other := w.open()
	other.c.Inject(fault.Join, f)
	_, err := other.Join(w.soon(), driver.JoinRequest{Line: line, IfEmpty: true})
	var taken *driver.TakenError
	require.ErrorAs(w.t, err, &taken)
	w.count(1, line, "nothing was written")
}

// leaveSurvives: also when the first request did it, the answer is nil.
func leaveSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	a, b := o.join(line).Entry, o.join(line).Entry
	o.c.Inject(fault.Leave, f)
	o.leave(a.Ref)
	assert.Equal(w.t, []driver.Ref{b.Ref}, refs(w.list(o.c, line)))

	w.svc.Delete(w.t, b.Ref)
	require.ErrorIs(w.t, o.leaveErr(b.Ref), driver.ErrGone, "an entry that never was left by us")
}

func readsSurvive(w *fixture, f fault.Kind) {
	o := w.open()
	e := o.join(line).Entry
	o.c.Inject(fault.Look, f)
	v := o.look(driver.LookRequest{Line: line, Upto: e.Place})
	assert.Equal(w.t, []driver.Ref{e.Ref}, refs(v.Entries))
	o.c.Inject(fault.List, f)
	assert.Equal(w.t, []driver.Ref{e.Ref}, refs(w.list(o.c, line)))
	o.c.Inject(fault.List, f)
	names, err := o.c.Backend().Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{line}, names)
}

func openSurvives(w *fixture, f fault.Kind) {
	c := w.client()
	c.Inject(fault.Open, f)
	o := w.openOn(c)
	require.NotEmpty(w.t, o.proven())
	o.join(line)
	w.count(1, line, "the session works")
	assert.Zero(w.t, o.losses())
}

func closeSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	o.join(line)
	o.c.Inject(fault.Close, f)
	require.NoError(w.t, o.end())
	w.count(0, line, "gone when Close returns nil")
}

// leaveCutShort: the first call has done it and never knew; the second must not
// say that somebody else did.
func leaveCutShort(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	o.c.Cut(fault.Replies)
	_, err := o.Leave(w.within(w.h.TTL/20), driver.LeaveRequest{Ref: e.Ref})
	require.Error(w.t, err, "unknown")
	require.NotErrorIs(w.t, err, driver.ErrGone, "unknown is not gone")
	w.count(0, line, "the service has done it")
	o.c.Heal()
	require.NoError(w.t, o.leaveErr(e.Ref), "an earlier unanswered call did it")
	require.ErrorIs(w.t, o.leaveErr(e.Ref), driver.ErrGone, "now it is answered")
}

func slowReplies(w *fixture) {
	holder, o := w.open(), w.open()
	first := holder.join(line).Entry
	o.c.Delay(w.short / 4)
	j := o.join(line)
	assert.Equal(w.t, 1, j.Ahead)
	v := o.look(driver.LookRequest{Line: line, Upto: j.Entry.Place})
	assert.Equal(w.t, []driver.Ref{first.Ref, j.Entry.Ref}, refs(v.Entries), "exactly one entry of this join")
	o.leave(j.Entry.Ref)
	w.count(1, line, "the holder")
}

// late: a request arrives after the client has given it up.
func late() []testCase {
	return []testCase{
		{"ALateJoinAfterSettleMakesNoEntry", lateSettled},
		{"ALateJoinAfterItsRetryMakesNoSecondEntry", lateRetried},
		{"ALateJoinAfterItsRetryWasLeftMakesNoEntry", lateLeft},
		{"ALateJoinAfterCloseMakesNoEntry", lateClosed},
		{"ALateLeaveDoesNotDeleteALaterEntry", lateLeave},
	}
}

// canceledLate is a join whose only request is kept back while its context ends.
func canceledLate(w *fixture, o *owner, names ...string) error {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.soon())
	defer stop()
	o.c.Inject(fault.Join, fault.LateRequest)
	o.c.OnRequest(stop)
	var err error
	if len(names) == 1 {
		_, err = o.Join(ctx, driver.JoinRequest{Line: names[0]})
	} else {
		_, err = o.JoinAll(ctx, requests(names...))
	}
	o.c.OnRequest(nil)
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p, "the join may still come to exist")
	return err
}

func lateSettled(w *fixture) {
	o := w.open()
	err := canceledLate(w, o, line)
	w.settle(err)
	o.c.Deliver()
	w.undone(0, line, "Settle made sure that nothing stays")

	e := o.join(line).Entry
	o.leave(e.Ref)
	w.count(0, line, "the line works as before")
}

func lateRetried(w *fixture) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	j := o.join(line)
	o.c.Deliver()
	w.undone(1, line, "one entry for one join")
	assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(w.list(o.c, line)))
}

// lateLeft is the orphan that lives as long as its session: the first copy of a
// join arrives when the second has been answered and left.
func lateLeft(w *fixture) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	o.leave(o.join(line).Entry.Ref)
	o.c.Deliver()
	w.undone(0, line, "a join that was answered and left does not come again")
}

func lateClosed(w *fixture) {
	o := w.open()
	err := canceledLate(w, o, line)
	require.NoError(w.t, o.end())
	o.c.Deliver()
	w.count(0, line, "nothing joins a line with a closed session")
	w.settle(err)
	w.count(0, line, "settled")
}

func lateLeave(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	o.c.Inject(fault.Leave, fault.LateRequest)
	o.leave(e.Ref)
	again := o.join(line).Entry // often with the same key
	o.c.Deliver()
	assert.Equal(w.t, []driver.Ref{again.Ref}, refs(w.list(o.c, line)))
}
