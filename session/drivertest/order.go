package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// order: a line is first come, first served, and tells so.
func order() []testCase {
	return []testCase{
		{"PlacesRiseInTheOrderOfJoining", placesRise},
		{"WhoIsFirstIsTheFirstThatIsThere", firstGoes},
		{"JoinsAtOnceStandInOneOrder", joinsAtOnce},
		{"TokensRiseAfterTheLineWasEmpty", tokensRise},
		{"AloneItTakesOneRoundTrip", aloneOneRoundTrip},
		{"AloneItTakesOneRoundTripOfAnyKind", aloneAnyKind},
		{"TwoEntriesOfASessionAreTwo", twoEntries},
		{"IfEmptyWritesNothingBehindOthers", ifEmptyWritesNothing},
		{"AnEntryTellsWhatItWasJoinedWith", entryTells},
		{"AnEntryDeletedBeforeItsAnswerHasNotBeenFirst", joinDeleted},
	}
}

func placesRise(w *fixture) {
	a := w.open()
	owners := []*owner{a, w.open(), w.openOn(a.c)}
	var joined []driver.Joined
	for i := range 6 {
		joined = append(joined, owners[i%3].joinWith(driver.JoinRequest{Line: line, Nearest: i % 3}))
	}

	for i, j := range joined {
		assert.Equal(w.t, i, j.Ahead, "ahead of entry %d", i)
		checkKnown(w, j, joined[:i])
		if i > 0 {
			assert.Greater(w.t, j.Entry.Place, joined[i-1].Entry.Place, "place of entry %d", i)
			assert.Greater(w.t, j.Entry.Token, joined[i-1].Entry.Token, "token of entry %d", i)
		}
	}
	listed := w.list(a.c, line)
	some, err := a.c.Backend().List(w.ctx, line, 2)
	require.NoError(w.t, err)
	assert.Equal(w.t, listed[:2], some, "the first ones only")
	require.Len(w.t, listed, len(joined))
	for i, e := range listed {
		assert.Equal(w.t, joined[i].Entry.Ref, e.Ref, "entry %d of the list", i)
	}
}

// firstGoes has the first of two leave at the first request of a List, then at the
// second, and so on until it makes fewer requests.
func firstGoes(w *fixture) {
	a, b, reader := w.open(), w.open(), w.client()
	for n := 1; ; n++ {
		require.Less(w.t, n, 20, "a List does not make so many requests")
		first, second := a.join(line), b.join(line)
		count := 0
		reader.OnRequest(func() {
			if count++; count == n {
				_, err := a.Leave(w.ctx, driver.LeaveRequest{Ref: first.Entry.Ref})
				assert.NoError(w.t, err)
			}
		})
		got, err := reader.Backend().List(w.ctx, line, 1)
		reader.OnRequest(nil)
		require.NoError(w.t, err)
		require.Len(w.t, got, 1)
		assert.Contains(w.t, []int64{first.Entry.Token, second.Entry.Token}, got[0].Token, "gone at request %d", n)
		if count < n {
			a.leave(first.Entry.Ref)
		}
		b.leave(second.Entry.Ref)
		if count < n {
			return
		}
	}
}

// checkKnown holds what a join knows against who really is ahead.
func checkKnown(w *fixture, j driver.Joined, ahead []driver.Joined) {
	there := make([]driver.Ref, 0, len(ahead))
	for _, a := range ahead {
		there = append(there, a.Entry.Ref)
	}
	known := refs(j.Known)
	assert.LessOrEqual(w.t, len(known), j.Ahead)
	assert.Subset(w.t, there, known, "known are ahead")
	if j.Near && len(known) <= len(there) {
		assert.Equal(w.t, there[len(there)-len(known):], known, "nobody stands between them")
	}
	assert.True(w.t, slices.IsSortedFunc(known, func(a, b driver.Ref) int { return int(a.Place - b.Place) }), "known are in order")
}

func joinsAtOnce(w *fixture) {
	const each = 8
	owners := []*owner{w.open(), w.open(), w.open()}
	var mu sync.Mutex
	var joined []driver.Joined
	var all sync.WaitGroup
	for i := range each * len(owners) {
		all.Go(func() {
			j, err := owners[i%len(owners)].Join(w.ctx, driver.JoinRequest{Line: line})
			mu.Lock()
			defer mu.Unlock()
			if assert.NoError(w.t, err) {
				joined = append(joined, j)
			}
		})
	}
	all.Wait()
	require.Len(w.t, joined, each*len(owners))
	slices.SortFunc(joined, func(a, b driver.Joined) int { return int(a.Entry.Place - b.Entry.Place) })

	for i, j := range joined {
		assert.Equal(w.t, i, j.Ahead, "ahead of place %d", j.Entry.Place)
		checkKnown(w, j, joined[:i])
		if i > 0 {
			assert.Greater(w.t, j.Entry.Token, joined[i-1].Entry.Token, "tokens rise with places")
			assert.NotEqual(w.t, j.Entry.Place, joined[i-1].Entry.Place, "places are never shared")
		}
	}
}

func tokensRise(w *fixture) {
	a := w.open()
	last := a.join(line).Entry
	next := func(o *owner, why string) {
		w.t.Helper()
		w.count(0, line, "before the next join")
		e := o.join(line).Entry
		require.Greater(w.t, e.Token, last.Token, "token after %s", why)
		require.NotEqual(w.t, last.Ref, e.Ref, "a ref is never used twice")
		last = e
	}
	a.leave(last.Ref)
	next(a, "a leave")
	w.svc.Delete(w.t, last.Ref)
	next(a, "a deletion by hand")
	require.NoError(w.t, a.end())
	b := w.open()
	next(b, "the session was closed and another opened")
	w.svc.Expire(w.t, b.ID())
	next(w.open(), "the session had ended")
}

func aloneOneRoundTrip(w *fixture) {
	o := w.open()
	var j driver.Joined
	costs := w.h.Costs(o.c, func() { j = o.join(line) }, func() { o.leave(j.Entry.Ref) })

	assert.Equal(w.t, []int{1, 1}, costs, "requests of a join and of a leave")
	assert.Zero(w.t, j.Ahead)
	assert.Empty(w.t, j.Known)
}

// aloneAnyKind: nor does a limit, a value or a ledger cost more, once the line has
// been made and its limit is known.
func aloneAnyKind(w *fixture) {
	for name, req := range map[string]driver.JoinRequest{
		"read": {Mode: driver.Shared, Kin: driver.KinReadWrite}, "write": exclusive(),
		"limit": weighted(2), "value": valued("v"), "ledger": kept(),
	} {
		req.Line = "kind/" + name
		o := w.open()
		o.giveBack(o.joinWith(req).Entry.Ref)
		var j driver.Joined
		costs := w.h.Costs(o.c, func() { j = o.joinWith(req) }, func() {
			o.leaveWith(driver.LeaveRequest{Ref: j.Entry.Ref, Held: true, Clean: req.Ledger})
		})

		assert.Equal(w.t, []int{1, 1}, costs, "requests of a join and of a leave: %s", name)
	}
	o := w.open()
	o.leaveAll(joinedRefs(o.joinAll(lines()...)))
	var all []driver.Ref
	costs := w.h.Costs(o.c, func() { all = joinedRefs(o.joinAll(lines()...)) }, func() { o.leaveAll(all) })
	assert.Equal(w.t, []int{1, 1}, costs, "requests of a join and of a leave of several")
}

func twoEntries(w *fixture) {
	o := w.open()
	a, b := o.join(line), o.join(line)
	require.NotEqual(w.t, a.Entry.Ref, b.Entry.Ref)
	assert.NotEqual(w.t, a.Entry.Key, b.Entry.Key, "two entries at one time have two keys")
	assert.Equal(w.t, 1, b.Ahead)
	w.count(2, line, "both stand")

	o.leave(a.Entry.Ref)
	assert.Equal(w.t, []driver.Ref{b.Entry.Ref}, refs(w.list(o.c, line)), "the other stays")
}

func ifEmptyWritesNothing(w *fixture) {
	a, b := w.open(), w.open()
	first := a.join(line).Entry
	a.join(line)
	for _, o := range []*owner{a, b} {
		_, err := o.Join(w.soon(), driver.JoinRequest{Line: line, IfEmpty: true})
		var taken *driver.TakenError
		require.ErrorAs(w.t, err, &taken)
		assert.Equal(w.t, 2, taken.Count)
		if !taken.First.Zero() {
			assert.Equal(w.t, first.Ref, taken.First.Ref, "who stands first")
		}
		w.count(2, line, "nothing was written")
	}
}

func entryTells(w *fixture) {
	o := w.open()
	meta := driver.Meta{Kind: "semaphore", Host: "web-2", PID: 4121, Label: "night run", Holds: []string{"a", "b/c"}}
	o.joinWith(driver.JoinRequest{Line: line, Mode: driver.Exclusive, Meta: meta})
	o.joinWith(driver.JoinRequest{Line: line, Mode: driver.Shared, Meta: meta})
	o.joinWith(driver.JoinRequest{Line: line, Mode: driver.Weighted, Weight: 5, Meta: meta})

	listed := w.list(o.c, line)
	require.Len(w.t, listed, 3)
	for i, mode := range []driver.Mode{driver.Exclusive, driver.Shared, driver.Weighted} {
		assert.Equal(w.t, mode, listed[i].Mode)
		assert.Equal(w.t, meta, listed[i].Meta)
		assert.Equal(w.t, o.ID(), listed[i].Session)
		assert.False(w.t, listed[i].Foreign)
		assert.False(w.t, listed[i].Unleased)
		assert.Positive(w.t, listed[i].Token)
	}
	assert.EqualValues(w.t, 5, listed[2].Weight)
}

// joinDeleted: somebody deletes an entry while the answer to its join is on its
// way, and then the line goes on.
func joinDeleted(w *fixture) {
	a, b := w.open(), w.open()
	ahead := a.join(line).Entry
	b.c.Delay(w.h.TTL / 10)
	var joined driver.Joined
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx := w.soon()
		var err error
		joined, err = b.Join(ctx, driver.JoinRequest{Line: line, Nearest: 2})
		assert.NoError(w.t, err, "Join")
	}()
	var list []driver.Entry
	for len(list) < 2 && w.ctx.Err() == nil {
		time.Sleep(w.h.TTL / 5000) // asking again is all one can do from outside
		list = w.list(a.c, line)
	}
	w.svc.Delete(w.t, list[1].Ref)
	a.leave(ahead.Ref)
	<-done
	b.c.Heal()
	if joined.Ahead == 0 {
		assert.NotEqual(w.t, list[1].Ref, joined.Entry.Ref, "it was never alone")
		w.count(1, line, "another was made")
	}
}
