package drivertest

import (
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// limit: a line's limit stands beside it, and every request that gives one is
// held against it.
func limit() []testCase {
	return slices.Concat(
		[]testCase{
			{"TheFirstJoinMakesTheLimit", limitMade},
			{"AnotherLimitIsRefusedAndNamed", limitOther},
			{"WhoFollowsTakesTheLimitThatIsThere", limitFollow},
			{"OneOfTwoFirstJoinsMakesTheLimit", limitRace},
			{"TheLimitStaysWhenTheLineIsEmpty", limitStays},
			{"ALimitAloneIsNoLine", limitAlone},
			{"SetLimitChangesItForAll", limitSet},
			{"ANewLimitIsToldToWhoWatches", limitWatched},
			{"ANewLimitIsToldOverACut", limitOverCut},
			{"ALookShowsALimitNotOlderThanTheLine", limitLook},
			{"ALateSetLimitDoesNotUndoANewerOne", limitLate},
		},
		over("AJoinWithALimitSurvivesA%v", fault.Retryable(), limitSurvives),
	)
}

func (w *fixture) limit(c Client) int64 {
	w.t.Helper()
	limit, err := c.Backend().Limit(w.soon(), line)
	require.NoError(w.t, err, "Limit")
	return limit
}

func (o *owner) setLimit(limit int64) {
	o.w.t.Helper()
	require.NoError(o.w.t, o.SetLimit(o.w.soon(), line, limit), "SetLimit")
}

// looksLimit says what a look at the whole line shows as its limit.
func (o *owner) looksLimit(notBefore int64) int64 {
	o.w.t.Helper()
	return o.look(driver.LookRequest{Line: line, Upto: 1 << 60, NotBefore: notBefore, Limit: true}).Limit
}

func limitMade(w *fixture) {
	o, other := w.open(), w.open()
	assert.Zero(w.t, w.limit(o.c), "there is none yet")
	assert.Zero(w.t, o.looksLimit(0))
	j := o.joinWith(weighted(3))
	assert.EqualValues(w.t, 3, j.Limit)
	assert.Zero(w.t, j.Ahead)
	assert.EqualValues(w.t, 3, w.limit(other.c))

	j = other.joinWith(weighted(3))
	assert.EqualValues(w.t, 3, j.Limit)
	assert.Equal(w.t, 1, j.Ahead)
	assert.Zero(w.t, o.join(line).Limit, "who gives none is told none")
}

func limitOther(w *fixture) {
	o, other := w.open(), w.open()
	o.joinWith(weighted(3))
	for range 2 {
		_, err := other.Join(w.ctx, weighted(5))
		var mismatch *driver.LimitError
		require.ErrorAs(w.t, err, &mismatch)
		require.ErrorIs(w.t, err, driver.ErrLimitMismatch)
		assert.EqualValues(w.t, 3, mismatch.Limit, "the line's")
		assert.EqualValues(w.t, 5, mismatch.Asked, "the caller's")
	}
	w.count(1, line, "no entry was made")
	assert.EqualValues(w.t, 3, w.limit(o.c), "nor another limit")
	other.joinWith(weighted(3))
	w.count(2, line, "the line works as before")
}

func limitFollow(w *fixture) {
	o := w.open()
	req := weighted(5)
	req.Follow = true
	j := o.joinWith(req)
	assert.EqualValues(w.t, 5, j.Limit, "there was none to follow")
	req.Limit = 9
	j = o.joinWith(req)
	assert.EqualValues(w.t, 5, j.Limit, "the line's")
	assert.Equal(w.t, 1, j.Ahead)
	assert.EqualValues(w.t, 5, w.limit(o.c))
}

func limitRace(w *fixture) {
	owners := []*owner{w.open(), w.open(), w.open(), w.open()}
	var mu sync.Mutex
	var won, lost []int64
	var wg sync.WaitGroup
	for i, o := range owners {
		wg.Go(func() {
			j, err := o.Join(w.ctx, weighted(int64(i+1)))
			var mismatch *driver.LimitError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, j.Limit)
				assert.EqualValues(w.t, i+1, j.Limit)
			case assert.ErrorAs(w.t, err, &mismatch):
				lost = append(lost, mismatch.Limit)
			}
		})
	}
	wg.Wait()
	require.Len(w.t, won, 1, "one of them has made it")
	assert.EqualValues(w.t, won[0], w.limit(owners[0].c))
	for _, limit := range lost {
		assert.EqualValues(w.t, won[0], limit)
	}
	w.count(1, line, "the others left no entry")
}

func limitStays(w *fixture) {
	o := w.open()
	o.leave(o.joinWith(weighted(3)).Entry.Ref)
	require.NoError(w.t, o.end())
	w.count(0, line, "all have left")

	other := w.open()
	assert.EqualValues(w.t, 3, w.limit(other.c), "until somebody deletes it")
	_, err := other.Join(w.ctx, weighted(4))
	require.ErrorIs(w.t, err, driver.ErrLimitMismatch)
	assert.EqualValues(w.t, 3, other.joinWith(weighted(3)).Limit)
}

func limitAlone(w *fixture) {
	o := w.open()
	o.setLimit(4)
	assert.EqualValues(w.t, 4, w.limit(o.c))
	names, err := o.c.Backend().Names(w.ctx, "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "nobody stands there")
	assert.Empty(w.t, w.list(o.c, line))
	assert.Empty(w.t, o.look(driver.LookRequest{Line: line, Upto: 1 << 60}).Entries)

	j := o.joinWith(driver.JoinRequest{Line: line, Mode: driver.Weighted, Weight: 1, Limit: 4, IfEmpty: true})
	assert.Zero(w.t, j.Ahead, "it counts for nobody")
}

func limitSet(w *fixture) {
	o, other := w.open(), w.open()
	e := o.joinWith(weighted(3)).Entry
	for _, limit := range []int64{12, 1, 7, 7} {
		other.setLimit(limit)
		assert.EqualValues(w.t, limit, w.limit(o.c))
	}
	_, err := o.Join(w.ctx, weighted(3))
	require.ErrorIs(w.t, err, driver.ErrLimitMismatch, "the old one")
	assert.EqualValues(w.t, 7, o.joinWith(weighted(7)).Limit)
	assert.Equal(w.t, e.Ref, w.list(o.c, line)[0].Ref, "entries stay as they are")
}

func limitWatched(w *fixture) {
	o, other := w.open(), w.open()
	o.joinWith(weighted(3))
	r, stop := o.armed("limit", driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLimit})
	for _, limit := range []int64{5, 2} {
		other.setLimit(limit)
		r.awaitNews(func(rev int64) bool { return o.looksLimit(rev) == limit })
	}
	stop()
	n := len(r.all())
	still, _ := o.armed("limit, again", driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLimit})
	other.setLimit(9)
	still.await(driver.Changed)
	assert.Len(w.t, r.all(), n, "nothing after cancel")
}

func limitOverCut(w *fixture) {
	for i, d := range fault.Directions() {
		o, other := w.open(), w.open()
		other.setLimit(2)
		r, _ := o.armed("limit", driver.WatchRequest{Ref: driver.Ref{Line: line}, Of: driver.OfLimit})
		o.c.Cut(d)
		other.setLimit(int64(i) + 5)
		o.c.Heal()
		r.awaitNews(func(int64) bool { return w.limit(o.c) == int64(i)+5 })
	}
}

// limitLook: an entry that joined under a new limit is never shown beside the
// old one, by a look that is as new as the entry.
func limitLook(w *fixture) {
	o, other := w.open(), w.open()
	o.joinWith(weighted(1))
	o.looksLimit(0) // so that an old answer exists
	for limit := int64(2); limit < 6; limit++ {
		other.setLimit(limit)
		own := o.joinWith(weighted(limit))
		v := o.look(driver.LookRequest{Line: line, Upto: own.Entry.Place, NotBefore: own.Rev, Limit: true})
		require.Contains(w.t, refs(v.Entries), own.Entry.Ref)
		assert.Equal(w.t, limit, v.Limit, "at the moment of the answer or after it")
	}
}

func limitLate(w *fixture) {
	o := w.open()
	o.joinWith(weighted(1))
	o.c.Inject(fault.Change, fault.LateRequest)
	o.setLimit(2)
	o.setLimit(3)
	o.c.Deliver()
	assert.EqualValues(w.t, 3, w.limit(o.c), "the newer one was told to be done")
}

func limitSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	o.c.Inject(fault.Join, f)
	j := o.joinWith(weighted(3))
	assert.EqualValues(w.t, 3, j.Limit)
	assert.Zero(w.t, j.Ahead)
	assert.EqualValues(w.t, 3, w.limit(o.c))

	o.c.Inject(fault.Join, f)
	_, err := o.Join(w.ctx, weighted(4))
	require.ErrorIs(w.t, err, driver.ErrLimitMismatch)
	o.c.Inject(fault.List, f)
	assert.EqualValues(w.t, 3, w.limit(o.c))
	w.count(1, line, "one entry for one join")
}
