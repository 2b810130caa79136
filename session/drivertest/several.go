package drivertest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// several: entries in several lines are made and left as one.
func several() []testCase {
	return slices.Concat(
		[]testCase{
			{"EntriesOfOneJoinHaveOneToken", severalToken},
			{"JoinsOfSeveralLinesStandInOneOrder", severalOrder},
			{"NothingIsMadeIfOneLineIsTaken", severalTaken},
			{"AsManyLinesAsTheProfileSays", severalMost},
			{"ASessionThatIsOverJoinsNoLine", severalOver},
			{"EntriesDieTogether", severalDie},
			{"EntriesAreLeftTogether", severalLeft},
			{"EntriesThatWereGoneAreMarked", severalGone},
			{"ALeaveOfSeveralCutShortIsFinishedByTheNext", severalCutShort},
			{"ALateJoinOfSeveralAfterSettleMakesNoEntry", severalLate},
			{"ALateJoinOfSeveralAfterItsRetryMakesNoSecondEntry", severalRetried},
		},
		over("AJoinOfSeveralCanceledWhileCut%vIsSettled", fault.Directions(), severalSettled),
		over("SeveralLinesSurviveA%v", fault.Retryable(), severalSurvive),
	)
}

// lines are some lines, of which the first is the one of other cases.
func lines() []string { return []string{line, "orders/ship", "gpu"} }

// requests asks to join each line.
func requests(names ...string) []driver.JoinRequest {
	all := make([]driver.JoinRequest, 0, len(names))
	for _, name := range names {
		all = append(all, driver.JoinRequest{Line: name})
	}
	return all
}

func (o *owner) joinAll(names ...string) []driver.Joined {
	o.w.t.Helper()
	all, err := o.JoinAll(o.w.soon(), requests(names...))
	require.NoError(o.w.t, err, "JoinAll")
	require.Len(o.w.t, all, len(names))
	for i, j := range all {
		require.Equal(o.w.t, names[i], j.Entry.Line, "answers stand in the order of the requests")
		require.NotEmpty(o.w.t, j.Entry.Key)
		require.Positive(o.w.t, j.Entry.Token)
		require.Equal(o.w.t, all[0].Entry.Token, j.Entry.Token, "they have one token")
	}
	return all
}

func (o *owner) leaveAll(all []driver.Ref) []driver.Left {
	o.w.t.Helper()
	left, err := o.LeaveAll(o.w.soon(), leaves(all))
	require.NoError(o.w.t, err, "LeaveAll")
	require.Len(o.w.t, left, len(all))
	return left
}

func leaves(all []driver.Ref) []driver.LeaveRequest {
	reqs := make([]driver.LeaveRequest, 0, len(all))
	for _, ref := range all {
		reqs = append(reqs, driver.LeaveRequest{Ref: ref})
	}
	return reqs
}

func joinedRefs(all []driver.Joined) []driver.Ref {
	names := make([]driver.Ref, 0, len(all))
	for _, j := range all {
		names = append(names, j.Entry.Ref)
	}
	return names
}

// counts requires a number of entries in each line, now.
func (w *fixture) counts(want int, why string) {
	w.t.Helper()
	for _, name := range lines() {
		w.count(want, name, why)
	}
}

// undoneAll is undone for each line.
func (w *fixture) undoneAll(want int, why string) {
	w.t.Helper()
	for _, name := range lines() {
		w.undone(want, name, why)
	}
}

func severalToken(w *fixture) {
	o, other := w.open(), w.open()
	ahead := other.join(lines()[1])
	all := o.joinAll(lines()...)
	behind := other.joinAll(lines()[2], lines()[0])

	for i, name := range lines() {
		j := all[i]
		var want []driver.Ref
		if i == 1 {
			want = append(want, ahead.Entry.Ref)
			assert.Less(w.t, ahead.Entry.Token, j.Entry.Token, "tokens rise in each line")
		}
		assert.Equal(w.t, len(want), j.Ahead, "ahead in %q", name)
		if len(j.Known) == j.Ahead {
			assert.Equal(w.t, want, append([]driver.Ref(nil), refs(j.Known)...), "all that are ahead in %q", name)
		}
		list := w.list(other.c, name)
		require.Greater(w.t, len(list), len(want))
		assert.Equal(w.t, j.Entry.Ref, list[len(want)].Ref)
		assert.Equal(w.t, j.Entry.Token, list[len(want)].Token, "as the list shows it")
	}
	for _, j := range behind {
		assert.Equal(w.t, 1, j.Ahead, "ahead in %q", j.Entry.Line)
		assert.Less(w.t, all[0].Entry.Token, j.Entry.Token)
	}
	w.count(2, lines()[1], "it did not join there")
	one := o.joinAll("alone")
	assert.Zero(w.t, one[0].Ahead, "one line is several too")
}

// severalOrder: sessions join overlapping sets of lines at once, each in an
// order of its own; in lines that they share they stand in one order.
func severalOrder(w *fixture) {
	owners := []*owner{w.open(), w.open(), w.open(), w.open()}
	names := append(lines(), "cpu")
	const rounds = 4
	var wg sync.WaitGroup
	for i, o := range owners {
		wg.Go(func() {
			for n := range rounds {
				mine := make([]string, 0, 3)
				for k := range 3 {
					mine = append(mine, names[(i*(n+1)+k*(1+2*(i%2)))%len(names)])
				}
				_, err := o.JoinAll(w.ctx, requests(mine...))
				assert.NoError(w.t, err)
			}
		})
	}
	wg.Wait()

	// A token names a join, so the joins stand in one order if every line agrees
	// with the order of tokens.
	joins := make(map[int64]int)
	for _, name := range names {
		var tokens []int64
		for _, e := range w.list(owners[0].c, name) {
			tokens = append(tokens, e.Token)
		}
		for _, token := range tokens {
			joins[token]++
		}
		assert.True(w.t, slices.IsSorted(tokens), "tokens rise in %q: %v", name, tokens)
		assert.Len(w.t, slices.Compact(slices.Clone(tokens)), len(tokens), "each once in %q", name)
	}
	assert.Len(w.t, joins, rounds*len(owners), "all joins")
	for token, entries := range joins {
		assert.Equal(w.t, 3, entries, "entries of the join with token %d", token)
	}
}

func severalTaken(w *fixture) {
	o, other := w.open(), w.open()
	first := other.join(lines()[1]).Entry
	other.join(lines()[1])
	other.join(lines()[2])
	reqs := requests(lines()...)
	for i := range reqs {
		reqs[i].IfEmpty = true
	}
	for range 2 {
		_, err := o.JoinAll(w.ctx, reqs)
		var taken *driver.TakenError
		require.ErrorAs(w.t, err, &taken)
		if !taken.First.Zero() {
			assert.Equal(w.t, first.Ref, taken.First.Ref, "the first line that is not empty")
		}
		assert.Equal(w.t, 2, taken.Count)
	}
	w.count(0, lines()[0], "nothing was made")
	w.count(2, lines()[1], "nor there")
	w.count(1, lines()[2], "nor there")
	require.NoError(w.t, other.end())
	all, err := o.JoinAll(w.ctx, reqs)
	require.NoError(w.t, err)
	require.Len(w.t, all, len(reqs))
	w.counts(1, "all are empty now")
}

func severalMost(w *fixture) {
	o := w.open()
	most := o.c.Backend().Profile().MaxAll
	require.GreaterOrEqual(w.t, most, 2)
	var names []string
	for i := range most + 1 {
		names = append(names, fmt.Sprintf("many/%d", i))
	}
	_, err := o.JoinAll(w.ctx, requests(names...))
	require.ErrorIs(w.t, err, driver.ErrRefused)
	w.count(0, names[0], "nothing was made")
	all := o.joinAll(names[:most]...)
	w.count(1, names[most-1], "the last of them")
	for _, l := range o.leaveAll(joinedRefs(all)) {
		assert.False(w.t, l.Gone)
	}
	w.count(0, names[most-1], "the last of them")
}

func severalOver(w *fixture) {
	o := w.open()
	w.svc.Expire(w.t, o.ID())
	_, err := o.JoinAll(w.soon(), requests(lines()...))
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
	w.counts(0, "nothing joins with a session that is over")
}

func severalDie(w *fixture) {
	o, other := w.open(), w.open()
	all := o.joinAll(lines()...)
	var watches []*recorder
	for _, j := range all {
		r, _ := other.armed(j.Entry.Line, driver.WatchRequest{Ref: j.Entry.Ref})
		watches = append(watches, r)
	}
	w.svc.Expire(w.t, o.ID())
	for _, r := range watches {
		r.await(driver.Gone)
	}
	w.counts(0, "they go with their session")
}

func severalLeft(w *fixture) {
	o, other := w.open(), w.open()
	for range 2 { // often with the same keys
		all := joinedRefs(o.joinAll(lines()...))
		r, _ := other.armed("one of them", driver.WatchRequest{Ref: all[1]})
		for _, l := range o.leaveAll(all) {
			assert.False(w.t, l.Gone)
		}
		r.await(driver.Gone)
		w.counts(0, "all are gone")
	}
	all := joinedRefs(o.joinAll(lines()...))
	o.leave(all[0])
	w.count(0, all[0].Line, "one can be left alone")
	w.count(1, all[1].Line, "and the others stay")
}

func severalGone(w *fixture) {
	o := w.open()
	all := joinedRefs(o.joinAll(lines()...))
	w.svc.Delete(w.t, all[1])
	again := o.join(all[1].Line).Entry.Ref // often with the same key
	left := o.leaveAll(all)
	assert.Equal(w.t, []bool{false, true, false}, []bool{left[0].Gone, left[1].Gone, left[2].Gone})
	assert.Equal(w.t, []driver.Ref{again}, refs(w.list(o.c, all[1].Line)), "the later entry stays")
	w.count(0, all[0].Line, "left")

	for _, l := range o.leaveAll(all) {
		assert.True(w.t, l.Gone, "all were gone")
	}
	w.count(1, again.Line, "the later entry stays")
}

// severalCutShort: the first call has done it and never knew.
func severalCutShort(w *fixture) {
	o := w.open()
	all := joinedRefs(o.joinAll(lines()...))
	o.c.Cut(fault.Replies)
	_, err := o.LeaveAll(w.within(w.h.TTL/20), leaves(all))
	require.Error(w.t, err, "unknown")
	w.counts(0, "the service has done it")
	o.c.Heal()
	for _, l := range o.leaveAll(all) {
		assert.False(w.t, l.Gone, "an earlier unanswered call did it")
	}
}

func severalSettled(w *fixture, d fault.Direction) {
	o := w.open()
	o.c.Cut(d)
	ctx := w.within(w.h.TTL / 20)
	var err error
	w.prompt(o.c, "JoinAll", ctx.Done(), func() { _, err = o.JoinAll(ctx, requests(lines()...)) })
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p, "it is not known whether the service has done it")
	want := w.svc.Count(w.t, line)
	w.counts(want, "all or nothing")
	o.c.Heal()
	w.settle(err)
	w.counts(0, "nothing is left")

	all := joinedRefs(o.joinAll(lines()...))
	o.leaveAll(all)
	w.counts(0, "the lines work as before")
}

func severalLate(w *fixture) {
	o := w.open()
	w.settle(canceledLate(w, o, lines()...))
	o.c.Deliver()
	w.undoneAll(0, "Settle made sure that nothing stays")
}

func severalRetried(w *fixture) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	all := joinedRefs(o.joinAll(lines()...))
	o.c.Deliver()
	w.undoneAll(1, "one entry for one join")
	o.leaveAll(all)

	o.c.Inject(fault.Join, fault.LateRequest)
	o.leaveAll(joinedRefs(o.joinAll(lines()...)))
	o.c.Deliver()
	w.undoneAll(0, "a join that was answered and left does not come again")
}

func severalSurvive(w *fixture, f fault.Kind) {
	holder, o := w.open(), w.open()
	holder.join(line)
	o.c.Inject(fault.Join, f)
	all := o.joinAll(lines()...)
	assert.Equal(w.t, 1, all[0].Ahead)
	assert.Zero(w.t, all[1].Ahead)
	for i, name := range lines() {
		list := w.list(o.c, name)
		require.Len(w.t, list, 1+all[i].Ahead, "exactly one entry of this join in %q", name)
		assert.Equal(w.t, all[i].Entry.Ref, list[all[i].Ahead].Ref)
	}
	o.c.Inject(fault.Leave, f)
	for _, l := range o.leaveAll(joinedRefs(all)) {
		assert.False(w.t, l.Gone, "the first request or the second did it")
	}
	w.count(1, line, "the holder")
	w.count(0, lines()[1], "nothing is left")
	w.count(0, lines()[2], "nothing is left")
}
