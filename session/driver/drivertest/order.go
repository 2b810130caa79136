package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// order: entries have places in the order in which the service received them.
func order() []testCase {
	return []testCase{
		{"PlacesRiseInTheOrderOfJoining", placesRise},
		{"JoinsAtOnceHaveOneOrder", joinsAtOnce},
		{"TokensRiseAfterTheQueueWasEmpty", tokensRise},
		{"AloneItTakesOneRoundTrip", aloneCosts},
		{"TwoEntriesOfASessionAreTwo", twoEntries},
		{"IfEmptyWritesNothingBehindOthers", ifEmptyWritesNothing},
		{"AnEntryDeletedBeforeItsAnswerHasNotBeenFirst", joinDeleted},
	}
}

func placesRise(w *fixture) {
	a := w.open()
	owners := []*owner{a, w.open(), w.openOn(a.c)}
	var joined []driver.Joined
	for i := range 6 {
		req := plain()
		req.Nearest = i % 3
		joined = append(joined, owners[i%3].joinWith(req))
	}

	for i, j := range joined {
		checkView(w, j, joined[:i])
		if i > 0 {
			assert.Greater(w.t, j.Entry.Place, joined[i-1].Entry.Place, "place of entry %d", i)
			assert.Greater(w.t, j.Entry.Token, joined[i-1].Entry.Token, "token of entry %d", i)
		}
	}
	all := owners[1].list(queue)
	require.Len(w.t, all, len(joined))
	for i, e := range all {
		assert.Equal(w.t, joined[i].Entry.Ref, e.Ref, "entry %d", i)
		assert.Equal(w.t, joined[i].Entry.Token, e.Token, "token of entry %d", i)
	}
}

// checkView compares the content of a join's answer with the entries that are really
// ahead.
func checkView(w *fixture, j driver.Joined, ahead []driver.Joined) {
	w.t.Helper()
	there := joinedRefs(ahead)
	shown := refs(j.View.Entries)
	assert.Equal(w.t, len(there), j.View.Count, "how many are ahead")
	require.LessOrEqual(w.t, len(shown), len(there))
	assert.Equal(w.t, there[len(there)-len(shown):], shown, "the nearest, in order")
	assert.Equal(w.t, len(shown) == len(there), j.View.Complete, "Complete: no entry is before them")
}

func joinedRefs(all []driver.Joined) []driver.Ref {
	names := make([]driver.Ref, 0, len(all))
	for _, j := range all {
		names = append(names, j.Entry.Ref)
	}
	return names
}

func joinsAtOnce(w *fixture) {
	const each = 8
	owners := []*owner{w.open(), w.open(), w.open()}
	var mu sync.Mutex
	var joined []driver.Joined
	var all sync.WaitGroup
	for i := range each * len(owners) {
		all.Go(func() {
			js, err := owners[i%len(owners)].Join(w.ctx, plain())
			mu.Lock()
			defer mu.Unlock()
			if assert.NoError(w.t, err) {
				joined = append(joined, js...)
			}
		})
	}
	all.Wait()
	require.Len(w.t, joined, each*len(owners))
	slices.SortFunc(joined, func(a, b driver.Joined) int { return int(a.Entry.Place - b.Entry.Place) })

	for i, j := range joined {
		checkView(w, j, joined[:i])
		if i > 0 {
			assert.Greater(w.t, j.Entry.Token, joined[i-1].Entry.Token, "tokens rise with places")
			assert.NotEqual(w.t, j.Entry.Place, joined[i-1].Entry.Place, "places are never shared")
		}
	}
}

func tokensRise(w *fixture) {
	a := w.open()
	last := a.join(queue).Entry
	next := func(o *owner, why string) {
		w.t.Helper()
		w.count(0, queue, "before the next join")
		e := o.join(queue).Entry
		require.Greater(w.t, e.Token, last.Token, "token after %s", why)
		require.Greater(w.t, e.Place, last.Place, "place after %s", why)
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

// aloneCosts: neither a kind, nor a detail, nor an Op, nor several queues cost more,
// once the queues have been made.
func aloneCosts(w *fixture) {
	var all [][]driver.JoinRequest
	for _, req := range kinds() {
		all = append(all, []driver.JoinRequest{req})
	}
	kept := plain()
	kept.Ops = []driver.Op{op("ledger", driver.Absent(), "nonce"), op("limit", driver.EqualOrAbsent([]byte("8")), "8")}
	kept.Records = []string{"ledger", "limit"}
	all = append(all, []driver.JoinRequest{kept}, requests(queues()...))
	for i, reqs := range all {
		o := w.open()
		leave := func(js []driver.Joined) {
			reqs := leaves(joinedRefs(js)...)
			reqs[0].First = true
			if len(js[0].Ops) > 0 {
				reqs[0].Ops = []driver.Op{op("ledger", driver.Equal([]byte("nonce")), "")}
			}
			o.leaveWith(reqs...)
		}
		leave(o.joinAll(reqs...))
		var js []driver.Joined
		costs := w.h.Costs(o.c, func() { js = o.joinAll(reqs...) }, func() { leave(js) })

		assert.Equal(w.t, []int{1, 1}, costs, "requests of a join and of a leave of kind %d", i)
	}
}

func twoEntries(w *fixture) {
	o := w.open()
	a, b := o.join(queue), o.join(queue)
	require.NotEqual(w.t, a.Entry.Ref, b.Entry.Ref)
	assert.NotEqual(w.t, a.Entry.Key, b.Entry.Key, "two entries at one time have two keys")
	assert.Equal(w.t, 1, b.View.Count)
	w.count(2, queue, "both have joined")

	o.leave(a.Entry.Ref)
	assert.Equal(w.t, []driver.Ref{b.Entry.Ref}, refs(o.list(queue)), "the other stays")
}

func ifEmptyWritesNothing(w *fixture) {
	a, b := w.open(), w.open()
	first := a.join(queue).Entry
	a.join(queue)
	req := plain()
	req.IfEmpty = true
	for _, o := range []*owner{a, b} {
		_, err := o.Join(w.soon(), req)
		checkTaken(w, err, queue, first.Ref, 2)
		w.count(2, queue, "nothing was written")
	}
	costs := w.h.Costs(b.c, func() { _, _ = b.Join(w.ctx, req) })
	assert.LessOrEqual(w.t, costs[0], max(1, w.h.Try), "round trips of a refused Join")
}

// checkTaken compares the error of a Join with IfEmpty with the queue.
func checkTaken(w *fixture, err error, name string, first driver.Ref, count int) {
	w.t.Helper()
	var taken *driver.TakenError
	require.ErrorAs(w.t, err, &taken)
	assert.Equal(w.t, name, taken.Queue)
	if !taken.First.Zero() {
		assert.Equal(w.t, first, taken.First.Ref, "the first entry")
	}
	assert.Contains(w.t, []int{-1, count}, taken.Count)
}

// joinDeleted: an operator deletes an entry while the answer to its join is on its way,
// and then the queue goes on.
func joinDeleted(w *fixture) {
	a, b := w.open(), w.open()
	ahead := a.join(queue).Entry
	b.c.Delay(w.short / 10)
	var joined []driver.Joined
	done := make(chan struct{})
	go func() {
		defer close(done)
		req := plain()
		req.Nearest = 2
		var err error
		joined, err = b.Join(w.soon(), req)
		assert.NoError(w.t, err, "Join")
	}()
	var all []driver.Entry
	for len(all) < 2 && w.ctx.Err() == nil {
		time.Sleep(w.short / 1000) // no event shows this from outside, so poll
		all = a.list(queue)
	}
	w.svc.Delete(w.t, all[1].Ref)
	a.leave(ahead.Ref)
	<-done
	b.c.Heal()
	if len(joined) == 1 && joined[0].View.Count == 0 {
		assert.NotEqual(w.t, all[1].Ref, joined[0].Entry.Ref, "it was never the first")
		w.count(1, queue, "another was made")
	}
}
