package drivertest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// ledger: a line keeps account of how holds end. In these cases an entry holds
// when nobody is ahead of it.
func ledger() []testCase {
	return slices.Concat(
		[]testCase{
			{"TheFirstHoldIsAfterACleanOne", ledgerFirst},
			{"AHoldGivenBackIsClean", ledgerClean},
			{"AHoldThatDiedIsTold", ledgerDied},
			{"AHoldThatDiedIsToldToWhoWaited", ledgerWaited},
			{"HoldersThatDieInTurnAreToldEach", ledgerInTurn},
			{"AWaiterLeavesNoTrace", ledgerNoTrace},
			{"AWaiterThatCameOverACleanLedgerLeavesNoTrace", ledgerOver},
			{"AHolderAheadOfAWaitersNameIsMissed", ledgerAhead},
			{"OnlyTheOwnNameIsStruck", ledgerOwn},
			{"AJoinThatIsSettledLeavesNoTrace", ledgerSettled},
			{"AListShowsHowTheHoldBeforeEnded", ledgerShown},
			{"LinesHaveTheirOwnLedgers", ledgerLines},
			{"AJoinOfSeveralEntersNoName", ledgerSeveral},
		},
		over("AHoldSurvivesA%v", fault.Retryable(), ledgerSurvives),
		over("ADeathIsToldOverA%v", fault.Retryable(), ledgerDiedOver),
	)
}

// kept is a request for a line that keeps account.
func kept() driver.JoinRequest { return driver.JoinRequest{Line: line, Ledger: true} }

// held is an entry that holds and has its name in the ledger.
type held struct {
	ref  driver.Ref
	past driver.Past
}

// hold joins a line that is empty, and enters the name.
func (o *owner) hold() held {
	o.w.t.Helper()
	j := o.joinWith(kept())
	require.Zero(o.w.t, j.Ahead, "the line is empty")
	if j.Entered {
		assert.Equal(o.w.t, j.Past, o.enter(j.Entry.Ref), "Enter says what Join said")
		return held{j.Entry.Ref, j.Past}
	}
	return held{j.Entry.Ref, o.enter(j.Entry.Ref)}
}

func (o *owner) enter(ref driver.Ref) driver.Past {
	o.w.t.Helper()
	past, err := o.Enter(o.w.soon(), ref)
	require.NoError(o.w.t, err, "Enter")
	return past
}

// next requires what a new session learns that holds, and lets it give back.
func (w *fixture) next(want driver.Past, why string) {
	w.t.Helper()
	o := w.open()
	h := o.hold()
	require.Equal(w.t, want, h.past, why)
	o.giveBack(h.ref)
	require.NoError(w.t, o.end())
}

func ledgerFirst(w *fixture) {
	w.next(driver.PastClean, "nobody has died under it")
	w.next(driver.PastClean, "nor now")
}

func ledgerClean(w *fixture) {
	o := w.open()
	for range 3 {
		h := o.hold()
		assert.Equal(w.t, driver.PastClean, h.past)
		o.giveBack(h.ref)
		w.count(0, line, "a ledger is no entry")
	}
	w.next(driver.PastClean, "another session sees the same")
	names, err := o.c.Backend().Names(w.ctx, "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "a ledger is no line")
}

func ledgerDied(w *fixture) {
	for _, e := range endings() {
		o := w.open()
		e.end(o, o.hold().ref)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, e.name)
		w.next(driver.PastDied, "nobody waited: "+e.name)
		w.next(driver.PastClean, "the next has given back")
	}
}

func ledgerWaited(w *fixture) {
	for _, e := range endings() {
		o, waiter := w.open(), w.open()
		h := o.hold()
		j := waiter.joinWith(kept())
		require.Equal(w.t, 1, j.Ahead)
		e.end(o, h.ref)
		w.eventually(func() bool { return !waiter.sees(h.ref, 0) }, e.name)
		assert.Equal(w.t, driver.PastDied, waiter.enter(j.Entry.Ref), e.name)
		assert.Equal(w.t, driver.PastDied, waiter.enter(j.Entry.Ref), "a second call tells the same")
		waiter.giveBack(j.Entry.Ref)
		w.next(driver.PastClean, e.name)
	}
}

func ledgerInTurn(w *fixture) {
	want := driver.PastClean
	for range 4 {
		o := w.open()
		h := o.hold()
		require.Equal(w.t, want, h.past)
		w.svc.Expire(w.t, o.ID())
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "expired")
		want = driver.PastDied
	}
	w.next(driver.PastDied, "the last one too")
	w.next(driver.PastClean, "until one gives back")
}

// ledgerNoTrace: waiters leave or die behind a holder that gives back.
func ledgerNoTrace(w *fixture) {
	clean := ending{"Release", func(o *owner, ref driver.Ref) { o.giveBack(ref) }}
	for _, e := range append(endings(), clean) {
		o, waiter := w.open(), w.open()
		h := o.hold()
		e.end(waiter, waiter.joinWith(kept()).Entry.Ref)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 1 }, e.name)
		o.giveBack(h.ref)
		w.next(driver.PastClean, "of a waiter: "+e.name)
	}
}

// overClean is a line whose ledger was clean for a moment in which last joined:
// the first one has given back, and the second has not entered its name yet.
func overClean(w *fixture) (second, last *owner, ahead, behind driver.Ref) {
	w.t.Helper()
	first := w.open()
	second, last = w.open(), w.open()
	h := first.hold()
	ahead = second.joinWith(kept()).Entry.Ref
	first.giveBack(h.ref)
	j := last.joinWith(kept())
	require.Equal(w.t, 1, j.Ahead)
	list := w.list(last.c, line)
	require.Equal(w.t, []driver.Ref{ahead, j.Entry.Ref}, refs(list))
	assert.Equal(w.t, driver.PastUnknown, list[1].Past, "its name is there, and it does not hold")
	return second, last, ahead, j.Entry.Ref
}

func ledgerOver(w *fixture) {
	for _, e := range endings() {
		second, last, ahead, behind := overClean(w)
		e.end(last, behind)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 1 }, e.name)
		assert.Equal(w.t, driver.PastClean, second.enter(ahead), "the other did not hold: %s", e.name)
		second.giveBack(ahead)
		w.next(driver.PastClean, e.name)
	}
}

func ledgerAhead(w *fixture) {
	for _, e := range endings() {
		second, last, ahead, behind := overClean(w)
		assert.Equal(w.t, driver.PastClean, second.enter(ahead), "who is behind does not hold")
		e.end(second, ahead)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 1 }, e.name)
		assert.Equal(w.t, driver.PastDied, last.enter(behind), e.name)
		last.giveBack(behind)
	}
	second, last, ahead, behind := overClean(w)
	second.enter(ahead)
	second.giveBack(ahead)
	assert.Equal(w.t, driver.PastClean, last.enter(behind), "and not otherwise")
}

// ledgerOwn: a waiter that leaves in good order does not clear a dead holder.
func ledgerOwn(w *fixture) {
	o, waiter := w.open(), w.open()
	o.hold()
	ref := waiter.joinWith(kept()).Entry.Ref
	w.svc.Expire(w.t, o.ID())
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 1 }, "expired")
	waiter.giveBack(ref) // before it has entered its name
	w.next(driver.PastDied, "the name was that of the holder")
}

func ledgerSettled(w *fixture) {
	for _, d := range fault.Directions() {
		o := w.open()
		o.c.Cut(d)
		_, err := o.Join(w.within(w.h.TTL/20), kept())
		require.Error(w.t, err)
		o.c.Heal()
		w.settle(err)
		w.count(0, line, "settled")
		w.next(driver.PastClean, "who never knew that it had joined did not hold: "+d.String())
	}
}

func ledgerShown(w *fixture) {
	o := w.open()
	h := o.hold()
	list := w.list(o.c, line)
	assert.Equal(w.t, driver.PastClean, list[0].Past)
	w.svc.Delete(w.t, h.ref)
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "deleted")
	o.hold()
	o.joinWith(kept())
	list = w.list(w.client(), line)
	require.Len(w.t, list, 2)
	assert.Equal(w.t, driver.PastDied, list[0].Past)
	assert.Equal(w.t, driver.PastUnknown, list[1].Past, "it waits")
}

func ledgerLines(w *fixture) {
	o := w.open()
	o.hold()
	w.svc.Expire(w.t, o.ID())
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "expired")
	o = w.open()
	for _, name := range []string{line + "/deep", line + "2", "orders"} {
		ref := o.joinWith(driver.JoinRequest{Line: name, Ledger: true}).Entry.Ref
		assert.Equal(w.t, driver.PastClean, o.enter(ref), name)
	}
	w.next(driver.PastDied, line)
}

func ledgerSeveral(w *fixture) {
	for _, enters := range []bool{false, true} {
		o := w.open()
		all, err := o.JoinAll(w.ctx, []driver.JoinRequest{kept(), {Line: "gpu", Ledger: true}})
		require.NoError(w.t, err)
		assert.False(w.t, all[0].Entered, "that is left to Enter")
		want := driver.PastClean
		if enters {
			want = driver.PastDied
			assert.Equal(w.t, driver.PastClean, o.enter(all[0].Entry.Ref))
		}
		w.svc.Expire(w.t, o.ID())
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "expired")
		w.next(want, "and that only")
	}
	o := w.open()
	ref := o.joinAll(line)[0].Entry.Ref
	o.enter(ref)
	_, err := o.LeaveAll(w.ctx, []driver.LeaveRequest{{Ref: ref, Clean: true}})
	require.NoError(w.t, err)
	w.next(driver.PastClean, "struck by LeaveAll")
}

// ledgerSurvives: nothing of a lost request or reply looks like a death.
func ledgerSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	for range 2 {
		o.c.Inject(fault.Join, f)
		h := o.hold()
		assert.Equal(w.t, driver.PastClean, h.past, "the entry takes itself for nobody else")
		o.c.Inject(fault.Leave, f)
		o.giveBack(h.ref)
	}
	w.next(driver.PastClean, "all were given back")
}

func ledgerDiedOver(w *fixture, f fault.Kind) {
	o := w.open()
	o.hold()
	w.svc.Expire(w.t, o.ID())
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "expired")
	o = w.open()
	o.c.Inject(fault.Join, f)
	o.c.Inject(fault.Change, f)
	h := o.hold()
	assert.Equal(w.t, driver.PastDied, h.past)
	assert.Equal(w.t, driver.PastDied, o.enter(h.ref))
	o.c.Inject(fault.Leave, f)
	o.giveBack(h.ref)
	w.next(driver.PastClean, "given back")
}
