package drivertest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// several: entries in several queues are made and left as one. Other topics join several
// queues too.
func several() []testCase {
	return []testCase{
		{"EntriesOfOneJoinHaveOneToken", severalToken},
		{"JoinsOfSeveralQueuesHaveOneOrder", severalOrder},
		{"NothingIsMadeIfOneQueueIsTaken", severalTaken},
		{"NothingIsMadeIfOneOpIsRefused", severalRefused},
		{"AsManyQueuesAsInfoAllows", severalMost},
		{"TheAnswerShowsHowEachEntryWent", severalLeft},
	}
}

// queues are some queues, of which the first is the one of other cases.
func queues() []string { return []string{queue, "orders/ship", "gpu"} }

// requests returns a request to join each queue.
func requests(names ...string) []driver.JoinRequest {
	all := make([]driver.JoinRequest, 0, len(names))
	for _, name := range names {
		all = append(all, driver.JoinRequest{Queue: name})
	}
	return all
}

func (o *owner) joinQueues(names ...string) []driver.Ref {
	o.w.t.Helper()
	return joinedRefs(o.joinAll(requests(names...)...))
}

// uses joins the queues and leaves them. After that a join of the session is one request: a backend may
// read a queue before the first.
func (o *owner) uses() {
	o.w.t.Helper()
	o.leave(o.joinQueues(queues()...)...)
}

// counts requires a number of entries in each queue, now.
func (w *fixture) counts(want int, why string) {
	w.t.Helper()
	for _, name := range queues() {
		w.count(want, name, why)
	}
}

func severalToken(w *fixture) {
	o, other := w.open(), w.open()
	ahead := other.join(queues()[1])
	all := o.joinAll(requests(queues()...)...)
	behind := other.joinAll(requests(queues()[2], queues()[0])...)

	for i, name := range queues() {
		var before []driver.Joined
		if i == 1 {
			before = append(before, ahead)
			assert.Less(w.t, ahead.Entry.Token, all[i].Entry.Token, "tokens rise in each queue")
		}
		checkView(w, all[i], before)
		list := other.list(name)
		require.Greater(w.t, len(list), len(before))
		assert.Equal(w.t, all[i].Entry.Ref, list[len(before)].Ref)
		assert.Equal(w.t, all[i].Entry.Token, list[len(before)].Token, "as a Read shows it")
	}
	for _, j := range behind {
		assert.Equal(w.t, 1, j.View.Count, "ahead in %q", j.Entry.Queue)
		assert.Less(w.t, all[0].Entry.Token, j.Entry.Token)
	}
	w.count(2, queues()[1], "it did not join there")
}

// severalOrder: sessions join overlapping sets of queues at once, each in an order of its
// own; in queues that they share their entries have one order.
func severalOrder(w *fixture) {
	owners := []*owner{w.open(), w.open(), w.open(), w.open()}
	names := append(queues(), "cpu")
	const rounds = 4
	var wg sync.WaitGroup
	for i, o := range owners {
		wg.Go(func() {
			for n := range rounds {
				mine := make([]string, 0, 3)
				for k := range 3 {
					mine = append(mine, names[(i*(n+1)+k*(1+2*(i%2)))%len(names)])
				}
				_, err := o.Join(w.ctx, requests(mine...)...)
				assert.NoError(w.t, err)
			}
		})
	}
	wg.Wait()

	// A token names a join, so the joins have one order if every queue agrees with the
	// order of tokens.
	joins := make(map[int64]int)
	for _, name := range names {
		var tokens []int64
		for _, e := range owners[0].list(name) {
			tokens = append(tokens, e.Token)
			joins[e.Token]++
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
	first := other.join(queues()[1]).Entry
	other.join(queues()[1])
	other.join(queues()[2])
	reqs := requests(queues()...)
	for i := range reqs {
		reqs[i].IfEmpty = true
	}
	for range 2 {
		_, err := o.Join(w.soon(), reqs...)
		checkTaken(w, err, queues()[1], first.Ref, 2)
	}
	w.count(0, queues()[0], "nothing was made")
	w.count(2, queues()[1], "nor there")
	w.count(1, queues()[2], "nor there")
	require.NoError(w.t, other.end())
	o.joinAll(reqs...)
	w.counts(1, "all are empty now")
}

// severalRefused: a condition in the last queue, an Op that is met in the first.
func severalRefused(w *fixture) {
	o := w.open()
	reqs := requests(queues()[1], queues()[2], queue)
	reqs[0].Ops = []driver.Op{op("slot/0", driver.Absent(), "mine")}
	reqs[2].Ops = []driver.Op{op("limit", driver.EqualOrAbsent([]byte("5")), "5")}
	o.set("limit", "3")
	_, err := o.Join(w.soon(), reqs...)
	checkRefused(w, err, reqs[2].Ops[0], o.record(queue, "limit"))
	w.counts(0, "nothing was made")
	assert.Zero(w.t, o.record(queues()[1], "slot/0"))

	o.set("limit", "5")
	var js []driver.Joined
	once := o.once(func() { js = o.joinAll(reqs...) })
	assert.True(w.t, js[0].Ops[0].Done || !once)
	assert.Equal(w.t, js[0].Entry.Token, o.record(queues()[1], "slot/0").Token, "one transaction")
	w.counts(1, "all were made")
}

func severalMost(w *fixture) {
	o := w.open()
	most := o.c.Backend().Info().MaxJoin
	require.GreaterOrEqual(w.t, most, 2)
	var names []string
	for i := range most + 1 {
		names = append(names, fmt.Sprintf("many/%d", i))
	}
	_, err := o.Join(w.soon(), requests(names...)...)
	require.ErrorIs(w.t, err, driver.ErrRefused)
	w.count(0, names[0], "nothing was made")
	all := o.joinQueues(names[:most]...)
	w.count(1, names[most-1], "the last of them")
	o.went(slices.Repeat([]driver.Left{driver.Deleted}, most), "all of them", leaves(all...)...)
	w.count(0, names[most-1], "the last of them")
}

func severalLeft(w *fixture) {
	o, other := w.open(), w.open()
	all := o.joinQueues(queues()...)
	w.svc.Delete(w.t, all[1])
	again := o.join(all[1].Queue).Entry.Ref // often with the same key
	r := other.armedEntry("one of them", all[2])
	o.went([]driver.Left{driver.Deleted, driver.WasGone, driver.Deleted}, "one was deleted by hand", leaves(all...)...)
	r.awaitGone()
	assert.Equal(w.t, []driver.Ref{again}, refs(o.list(all[1].Queue)), "the later entry stays")
	w.count(0, all[0].Queue, "left")
	o.went([]driver.Left{driver.WasGone, driver.WasGone, driver.WasGone}, "again", leaves(all...)...)
	w.count(1, again.Queue, "the later entry stays")
	o.leave(again)

	all = o.joinQueues(queues()...)
	o.leave(all[0])
	w.count(0, all[0].Queue, "one can be left alone")
	w.count(1, all[1].Queue, "and the others stay")
}
