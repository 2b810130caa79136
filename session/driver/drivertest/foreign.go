package drivertest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// foreign: what other programs put into a queue is part of it, also among yield requests.
func foreign() []testCase {
	return []testCase{
		{"ForeignEntriesCountAndAreMarked", foreignCount},
		{"ForeignEntriesAreWatched", foreignWatched},
		{"BrokenDataNeverBreaksTheQueue", brokenData},
	}
}

func foreignCount(w *fixture) {
	o := w.open()
	f := w.svc.PutForeign(w.t, "elsewhere", true)
	_, err := o.Join(w.soon(), driver.JoinRequest{Queue: "elsewhere", IfEmpty: true})
	checkTaken(w, err, "elsewhere", f, 1)
	for _, name := range []string{queue, driver.AskQueue(queue)} {
		all := []driver.Joined{o.join(name)}
		for _, leased := range []bool{true, false} {
			all = append(all, driver.Joined{Entry: driver.Entry{Ref: w.svc.PutForeign(w.t, name, leased), Foreign: true, Unleased: !leased}})
		}
		j := o.join(name)
		checkView(w, j, all)
		all = append(all, j)

		for _, req := range []driver.ReadRequest{{}, {Upto: j.Entry.Place}, {Marks: true, Detail: true}, {Upto: j.Entry.Place, Nearest: 3, Detail: true}} {
			req.Queue = name
			got := o.read(req).Entries
			require.Equal(w.t, joinedRefs(all), refs(got))
			for i, e := range got {
				assert.Equal(w.t, all[i].Entry.Foreign, e.Foreign, "entry %d", i)
				assert.Equal(w.t, driver.Exclusive, e.Mode, "it counts as exclusive")
				assert.Zero(w.t, e.Marks)
				if !req.Detail {
					continue
				}
				assert.Equal(w.t, all[i].Entry.Unleased, e.Unleased, "it will stay until an operator deletes it")
				assert.Equal(w.t, e.Unleased, e.Session == "", "entry %d", i)
				assert.Empty(w.t, e.Detail)
				assert.Positive(w.t, e.Token)
			}
		}
	}
}

func foreignWatched(w *fixture) {
	o, by := w.open(), w.open()
	f := w.svc.PutForeign(w.t, queue, true)
	r := o.armedEntry("foreign entry", f)
	for _, v := range []string{"10.0.0.7:80", `{"v":1,"kind":"mutex"}`} {
		w.svc.Overwrite(w.t, f, []byte(v))
		r.awaitChange(0, func() bool { return string(o.entries(queue)[0].Data) == v })
		got := o.entries(queue)[0]
		assert.True(w.t, got.Foreign)
		assert.Empty(w.t, got.Detail, "its data is all that it has")
	}
	w.svc.Delete(w.t, f)
	r.awaitGone()
	neverArmed(o, f)

	f = w.svc.PutForeign(w.t, queue, true)
	r = o.armedEntry("foreign entry", f)
	way("Evict").delete(by, f, driver.Deleted, "evicted")
	r.awaitGone()
}

func brokenData(w *fixture) {
	o, other := w.open(), w.open()
	a, b := o.joinWith(plain()), o.joinWith(valued("v"))
	for _, value := range []string{"", "{", `{"v":"x"}`, "\xff\xfe", `{"v":1,"kind":7}`, "null", strings.Repeat("x", 1<<16)} {
		w.svc.Overwrite(w.t, a.Entry.Ref, []byte(value))
		w.svc.Overwrite(w.t, b.Entry.Ref, []byte(value))
		j := other.join(queue)
		checkView(w, j, []driver.Joined{a, b})
		for _, all := range [][]driver.Entry{other.list(queue), other.read(driver.ReadRequest{Queue: queue, Upto: j.Entry.Place}).Entries} {
			require.Equal(w.t, joinedRefs([]driver.Joined{a, b, j}), refs(all), "%.20q", value)
			for _, e := range all {
				assert.Equal(w.t, []any{driver.Exclusive, false}, []any{e.Mode, e.Foreign}, "%.20q", value)
			}
		}
		assert.Equal(w.t, value, string(other.list(queue)[1].Data), "as it is")
		other.leave(j.Entry.Ref)
	}
	o.went([]driver.Left{driver.Deleted, driver.Deleted}, "their owner can leave", leaves(a.Entry.Ref, b.Entry.Ref)...)
	w.count(0, queue, "they are gone")
}

// yields: yield requests are entries in a queue of their own, next to that of the lock.
func yields() []testCase {
	return []testCase{
		{"AYieldRequestIsInNoOtherQueue", yieldBeside},
		{"AYieldRequestIsNotReportedToWatchesOfTheLock", yieldQuiet},
		{"YieldRequestsOfAllNamesAreApart", yieldNames},
	}
}

func yielding(name, why string) driver.JoinRequest {
	return driver.JoinRequest{
		Queue: driver.AskQueue(name), Data: []byte(why), Valued: true, Detail: []byte("of an operator"), Nearest: 1,
	}
}

func yieldBeside(w *fixture) {
	o, by := w.open(), w.open()
	e := o.join(queue)
	first := by.joinWith(yielding(queue, "a deploy"))
	second := o.joinWith(yielding(queue, "one more"))
	checkView(w, second, []driver.Joined{first})

	w.count(1, queue, "yield requests are not in it")
	require.Equal(w.t, []driver.Ref{e.Entry.Ref}, refs(by.list(queue)))
	behind := by.join(queue)
	checkView(w, behind, []driver.Joined{e})
	names, err := by.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{queue}, names)

	got := o.list(driver.AskQueue(queue))
	require.Equal(w.t, []driver.Ref{first.Entry.Ref, second.Entry.Ref}, refs(got))
	assert.Equal(w.t, "a deploy", string(got[0].Data))
	assert.Equal(w.t, "of an operator", string(got[0].Detail))
	assert.Equal(w.t, by.ID(), got[0].Session)
	o.leave(e.Entry.Ref)
	by.leave(behind.Entry.Ref)
	names, err = by.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "a queue of yield requests has no name")
	require.Len(w.t, o.list(driver.AskQueue(queue)), 2, "and they stay")
}

// yieldQuiet has watches of all kinds on the lock's queue; none must report anything.
func yieldQuiet(w *fixture) {
	o, by := w.open(), w.open()
	e := o.joinWith(writer()).Entry
	quiet := []*recorder{o.armedEntry("own entry", e.Ref), by.armedEntry("entry", e.Ref)}
	for _, t := range []driver.Target{ofQueue(queue), ofHolders(), ofRecord("limit")} {
		r, _ := o.armed("target", t)
		quiet = append(quiet, r)
	}
	requests, _ := o.armed("yield requests", ofQueue(driver.AskQueue(queue)))
	for range 3 {
		by.leave(by.joinWith(yielding(queue, "why not")).Entry.Ref)
	}
	last := by.joinWith(yielding(queue, "why not")).Entry.Ref // a watch that polls may have seen none of the others
	requests.awaitNews(func() bool { return len(o.entries(driver.AskQueue(queue))) == 1 })
	by.leave(last)
	for _, r := range quiet {
		r.silent("no watch of the lock's queue is affected")
	}
}

func yieldNames(w *fixture) {
	o := w.open()
	all := accepted(w, o.c.Backend())
	made := make(map[string]driver.Ref, len(all))
	for _, name := range all {
		made[name] = o.joinWith(yielding(name, name)).Entry.Ref
	}
	for _, name := range all {
		got := o.only(driver.AskQueue(name))
		require.Equal(w.t, made[name], got.Ref, "the yield requests of %q", name)
		assert.Equal(w.t, name, string(got.Data))
		w.count(0, name, "and the lock's queue is empty")
	}
	for _, prefix := range []string{"", "a", "limit", "a/"} {
		names, err := o.Names(w.soon(), prefix)
		require.NoError(w.t, err)
		assert.Empty(w.t, names, "prefix %q", prefix)
	}
	for _, name := range all {
		o.leave(made[name])
	}
}
