package drivertest

import (
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// admit: whoever waits in a line with a limit learns that somebody ahead holds,
// and that somebody who held has gone.
func admit() []testCase {
	return slices.Concat([]testCase{
		{"AnAdmissionIsShownAndTold", admitShown},
		{"AnAdmissionIsToldOverACut", admitOverCut},
		{"AnAdmissionGoesWithItsEntry", admitGoes},
		{"TheEndOfAHolderIsToldOverACut", admitEndsOverCut},
		{"AReleaseIsToldOnceWhateverTheNumberOfWaiters", admitOnce},
	},
		over("The%vOfAHolderIsTold", endings(), func(w *fixture, e ending) { admitEnds(w, true, e.end) }),
		over("The%vOfAnyEntryIsToldWhereTheServiceSaysSo", []ending{{"Leave", byLeave}, {"Deletion", byDeletion}}, admitProfile),
	)
}

func (o *owner) admit(ref driver.Ref) {
	o.w.t.Helper()
	require.NoError(o.w.t, o.Admit(o.w.soon(), ref), "Admit")
}

// watchAdmitted watches the end of holders ahead of an entry.
func (o *owner) watchAdmitted(before int64) *recorder {
	o.w.t.Helper()
	r, _ := o.armed("holders ahead", driver.WatchRequest{
		Ref: driver.Ref{Line: line, Place: before}, Of: driver.OfAdmitted,
	})
	return r
}

// admitted are the entries of the line that hold, by a look.
func (o *owner) admitted(notBefore int64) []driver.Ref {
	o.w.t.Helper()
	v := o.look(driver.LookRequest{Line: line, Upto: 1 << 60, NotBefore: notBefore, Limit: true})
	return refs(slices.DeleteFunc(v.Entries, func(e driver.Entry) bool { return !e.Admitted }))
}

func admitShown(w *fixture) {
	o, waiter := w.open(), w.open()
	a, b := o.joinWith(weighted(2)).Entry, o.joinWith(weighted(2)).Entry
	own := waiter.joinWith(weighted(2)).Entry
	r, _ := waiter.armed("entry ahead", driver.WatchRequest{Ref: b.Ref, Changes: true})
	quiet, _ := waiter.armed("no changes wanted", driver.WatchRequest{Ref: b.Ref})
	assert.Empty(w.t, waiter.admitted(0))
	o.admit(b.Ref)
	ev := r.await(driver.Changed, driver.Gone)
	assert.Equal(w.t, driver.Changed, ev.Kind)
	assert.Equal(w.t, []driver.Ref{b.Ref}, waiter.admitted(ev.Rev), "a look after the event shows it")
	o.admit(a.Ref)

	all := w.list(o.c, line)
	require.ElementsMatch(w.t, []driver.Ref{a.Ref, b.Ref, own.Ref}, refs(all))
	for _, e := range all {
		assert.Equal(w.t, e.Ref != own.Ref, e.Admitted, "entry %v", e.Ref)
		assert.EqualValues(w.t, 1, e.Weight)
		assert.Equal(w.t, driver.Weighted, e.Mode)
	}
	quiet.unchanged()
}

func admitOverCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, waiter := w.open(), w.open()
		e := o.joinWith(weighted(2)).Entry
		waiter.joinWith(weighted(2))
		r, _ := waiter.armed("entry ahead", driver.WatchRequest{Ref: e.Ref, Changes: true})
		waiter.c.Cut(d)
		o.admit(e.Ref)
		waiter.c.Heal()
		for {
			ev := r.await(driver.Changed, driver.Armed)
			if ev.Kind == driver.Changed || slices.Contains(waiter.admitted(ev.Rev), e.Ref) {
				break
			}
		}
		o.leave(e.Ref)
		r.awaitGone(e.Ref)
	}
}

// admitGoes: a later entry, often with the same key, is not taken for a holder.
func admitGoes(w *fixture) {
	o := w.open()
	for _, end := range []func(ref driver.Ref){
		func(ref driver.Ref) { o.leave(ref) },
		func(ref driver.Ref) { w.svc.Delete(w.t, ref) },
	} {
		e := o.joinWith(weighted(1)).Entry
		o.admit(e.Ref)
		end(e.Ref)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "it is gone")
		again := o.joinWith(weighted(1))
		assert.Zero(w.t, again.Ahead)
		all := w.list(o.c, line)
		require.Equal(w.t, []driver.Ref{again.Entry.Ref}, refs(all))
		assert.False(w.t, all[0].Admitted)
		o.leave(again.Entry.Ref)
		w.count(0, line, "nothing of it stays")
	}
}

// admitEnds ends an entry in some way; who watches the holders ahead is told,
// and then sees that it has gone.
func admitEnds(w *fixture, admitted bool, end func(o *owner, ref driver.Ref)) {
	o, other, waiter := w.open(), w.open(), w.open()
	e, stays := o.joinWith(weighted(2)).Entry, other.joinWith(weighted(2)).Entry
	own := waiter.joinWith(weighted(2)).Entry
	if admitted {
		o.admit(e.Ref)
		other.admit(stays.Ref)
	}
	// Of a deletion by hand the owner's session may have to hear first.
	o.armed("own entry", driver.WatchRequest{Ref: e.Ref, Own: true})
	bounded, all := waiter.watchAdmitted(own.Place), waiter.watchAdmitted(0)
	end(o, e.Ref)
	for _, r := range []*recorder{bounded, all} {
		r.awaitNews(func(rev int64) bool {
			v := waiter.look(driver.LookRequest{Line: line, Upto: own.Place, NotBefore: rev})
			return slices.Equal([]driver.Ref{stays.Ref, own.Ref}, refs(v.Entries))
		})
	}
}

func admitProfile(w *fixture, e ending) {
	if !w.client().Backend().Profile().Ends {
		w.t.Skip("only the end of holders is told: Profile.Ends")
	}
	admitEnds(w, false, e.end)
}

func admitEndsOverCut(w *fixture) {
	for _, d := range fault.Directions() {
		o, waiter := w.open(), w.open()
		e := o.joinWith(weighted(1)).Entry
		o.admit(e.Ref)
		r := waiter.watchAdmitted(waiter.joinWith(weighted(1)).Entry.Place)
		waiter.c.Cut(d)
		o.leave(e.Ref)
		waiter.c.Heal()
		r.awaitNews(func(rev int64) bool { return !waiter.sees(e.Ref, rev) })
	}
}

// admitOnce: a crowd that comes and goes behind the first waiter does not wake
// it, and each release wakes it at most twice.
func admitOnce(w *fixture) {
	o, waiter, crowd := w.open(), w.open(), w.open()
	const releases, waiters = 4, 12
	var held []driver.Ref
	for range releases {
		e := o.joinWith(weighted(releases)).Entry
		o.admit(e.Ref)
		held = append(held, e.Ref)
	}
	own := waiter.joinWith(weighted(releases)).Entry
	r := waiter.watchAdmitted(own.Place)
	var behind []driver.Ref
	for range waiters {
		behind = append(behind, crowd.joinWith(weighted(releases)).Entry.Ref)
	}
	for i, ref := range held {
		o.leave(ref)
		r.awaitNews(func(rev int64) bool { return !waiter.sees(ref, rev) })
		crowd.leave(behind[i])
	}
	end, _ := waiter.armed("the last of the crowd", driver.WatchRequest{Ref: behind[waiters-1]})
	crowd.leave(behind[waiters-1])
	end.await(driver.Gone)

	told := len(slices.DeleteFunc(r.all(), func(ev driver.Event) bool { return ev.Kind != driver.Changed }))
	assert.GreaterOrEqual(w.t, told, 1)
	assert.LessOrEqual(w.t, told, 2*releases, "%d releases", releases)
}

// claim: entries of a line have numbers, each its own, the lowest there are.
func claim() []testCase {
	return []testCase{
		{"NumbersAreTheLowestThatAreFree", claimLowest},
		{"ANumberBelongsToOneEntry", claimRace},
		{"ANumberIsFreeWhenItsEntryHasGone", claimFreed},
		{"LinesHaveTheirOwnNumbers", claimLines},
		{"TheTokenOfANumberRises", claimTokens},
	}
}

func (o *owner) claim(ref driver.Ref) int {
	o.w.t.Helper()
	return o.claimed(ref).N
}

// claimed is claim, with the token.
func (o *owner) claimed(ref driver.Ref) driver.Number {
	o.w.t.Helper()
	n, err := o.Claim(o.w.soon(), ref)
	require.NoError(o.w.t, err, "Claim")
	return n
}

// claimTokens has entries get one number, not in the order in which they joined.
func claimTokens(w *fixture) {
	o, other := w.open(), w.open()
	late, early := o.joinWith(weighted(3)).Entry.Ref, other.joinWith(weighted(3)).Entry.Ref
	last := int64(0)
	for _, x := range []struct {
		by  *owner
		ref driver.Ref
	}{{other, early}, {o, late}, {other, other.joinWith(weighted(3)).Entry.Ref}} {
		n := x.by.claimed(x.ref)
		require.Zero(w.t, n.N)
		assert.Greater(w.t, n.Token, last, "it rises with every entry that gets the number")
		assert.Equal(w.t, n, x.by.claimed(x.ref), "a second call gives the same")
		last = n.Token
		x.by.leave(x.ref)
	}
}

func claimLowest(w *fixture) {
	o, other := w.open(), w.open()
	var all []driver.Ref
	for i := range 6 {
		by := o
		if i%2 == 1 {
			by = other
		}
		ref := by.joinWith(weighted(6)).Entry.Ref
		all = append(all, ref)
		assert.Equal(w.t, i, by.claim(ref))
		assert.Equal(w.t, i, by.claim(ref), "a second call gives the same")
	}
	other.leave(all[3])
	other.leave(all[1])
	o.leave(all[4])
	for _, want := range []int{1, 3, 4, 6} {
		assert.Equal(w.t, want, o.claim(o.joinWith(weighted(6)).Entry.Ref))
	}
	assert.Len(w.t, w.list(o.c, line), 7, "numbers are not entries")
}

func claimRace(w *fixture) {
	owners := []*owner{w.open(), w.open(), w.open()}
	const each = 3
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	for _, o := range owners {
		for range each {
			ref := o.joinWith(weighted(9)).Entry.Ref
			wg.Go(func() {
				n, err := o.Claim(w.ctx, ref)
				assert.NoError(w.t, err)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, n.N)
			})
		}
	}
	wg.Wait()
	slices.Sort(got)
	assert.Equal(w.t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, got)
}

func claimFreed(w *fixture) {
	for _, e := range endings() {

		o, other := w.open(), w.open()
		ref, stays := o.joinWith(weighted(2)).Entry.Ref, other.joinWith(weighted(2)).Entry.Ref
		require.Equal(w.t, 0, o.claim(ref))
		require.Equal(w.t, 1, other.claim(stays))
		// Of a deletion by hand the owner's session may have to hear first.
		o.armed("own entry", driver.WatchRequest{Ref: ref, Own: true})
		e.end(o, ref)
		w.eventually(func() bool {
			ref := other.joinWith(weighted(2)).Entry.Ref
			n := other.claim(ref)
			other.leave(ref)
			return n == 0
		}, "the lowest is free again")
		other.leave(stays)
	}
}

func claimLines(w *fixture) {
	o := w.open()
	for _, name := range []string{line, line + "/deep", "gpu"} {
		req := weighted(3)
		req.Line = name
		assert.Equal(w.t, 0, o.claim(o.joinWith(req).Entry.Ref), name)
	}
}
