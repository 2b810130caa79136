package drivertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// reads: part of a queue, as of one moment that is not older than what is known.
func reads() []testCase {
	return []testCase{
		{"ReadShowsTheRequestedPart", readPart},
		{"ReadShowsTheFirstOnes", readFirst},
		{"ReadOfAnUnknownQueueIsEmptyAndComplete", readUnknown},
		{"ReadIsNotOlderThanAnAnswer", readAfterAnswer},
		{"AFreshReadIsNotOlderThanTheCall", readFresh},
		{"ReadIsNotOlderThanAnEvent", readAfterEvent},
		{"TheEntriesOfAReadAreOfOneMoment", readOneMoment},
		{"TheRecordsOfAReadAreNotOlderThanItsEntries", readRecordsLater},
		{"TheRecordsOfAJoinAreNotOlderThanTheJoin", joinRecords},
		{"ReadShowsRecordsByNameAndByPrefix", readRecords},
		{"AReadThatAsksForAllIsWholeWhileEntriesGo", readDetailGone},
	}
}

// crowd makes a queue of n entries of two sessions.
func crowd(w *fixture, n int) (*owner, []driver.Ref) {
	owners := []*owner{w.open(), w.open()}
	var all []driver.Ref
	for i := range n {
		all = append(all, owners[i%2].join(queue).Entry.Ref)
	}
	owners[0].fresh(queue)
	return owners[0], all
}

// readPart reads every part from one place up to another, with more or less ahead of it.
// An entry in between has been deleted.
func readPart(w *fixture) {
	o, all := crowd(w, 6)
	gone := all[3]
	w.svc.Delete(w.t, gone)
	o.fresh(queue)
	for i, upto := range all {
		for k, from := range all[:i+1] {
			for n := range 5 {
				req := driver.ReadRequest{Queue: queue, Upto: upto.Place, From: from.Place, Nearest: n, Marks: n%2 == 0, Detail: i%2 == 0}
				if k == i {
					req.From = 0
				}
				v, before, part := o.read(req), without(all[:k], gone), without(all[:i+1], gone)
				want := len(part) // at the least, from the end
				if n > 0 {
					want -= max(0, len(before)-n)
				}
				got, what := refs(v.Entries), fmt.Sprintf("from %d upto %d, nearest %d", k, i, n)
				require.GreaterOrEqual(w.t, len(got), want, what)
				require.LessOrEqual(w.t, len(got), len(part), what)
				assert.Equal(w.t, part[len(part)-len(got):], got, what)
				assert.Equal(w.t, len(got) == len(part), v.Complete, "%s: Complete if no entry is before the first shown", what)
				assert.Contains(w.t, []int{-1, len(part)}, v.Count, what)
			}
		}
	}
}

func without(all []driver.Ref, gone driver.Ref) []driver.Ref {
	return slices.DeleteFunc(slices.Clone(all), func(ref driver.Ref) bool { return ref == gone })
}

func readFirst(w *fixture) {
	o, all := crowd(w, 4)
	for n := range 6 {
		v := o.read(driver.ReadRequest{Queue: queue, Nearest: n, From: all[2].Place})
		got := refs(v.Entries)
		require.GreaterOrEqual(w.t, len(got), []int{4, 1, 2, 3, 4, 4}[n])
		assert.Equal(w.t, all[:len(got)], got, "first %d", n)
		assert.Equal(w.t, len(got) == len(all), v.Complete, "Complete if no entry is behind the last shown")
		assert.Contains(w.t, []int{-1, len(all)}, v.Count)
	}
}

func readUnknown(w *fixture) {
	o := w.open()
	e := o.join("elsewhere").Entry
	for _, req := range []driver.ReadRequest{{Upto: e.Place, Nearest: 2}, {}, {Nearest: 1, Marks: true, Detail: true}} {
		req.Queue, req.Records = queue, []string{"limit", "slot/"}
		v := o.read(req)
		assert.Empty(w.t, v.Entries)
		assert.Empty(w.t, v.Records)
		assert.True(w.t, v.Complete)
		assert.Contains(w.t, []int{0, -1}, v.Count)
	}
}

// readAfterAnswer: after each answer a Read shows what the answer was about.
func readAfterAnswer(w *fixture) {
	o, other := w.open(), w.open()
	ahead := other.join(queue).Entry.Ref
	for range 5 {
		req := valued("v")
		req.Ops = []driver.Op{op("limit", driver.Absent(), "3")}
		own := o.joinWith(req).Entry.Ref
		require.Equal(w.t, []driver.Ref{ahead, own}, refs(o.entries(queue)), "after a Join")
		require.Equal(w.t, "3", o.value("limit"), "after a Join with an Op")
		o.update(driver.UpdateRequest{Queue: queue, Ops: []driver.Op{op("limit", driver.Equal([]byte("3")), "4")}})
		require.Equal(w.t, "4", o.value("limit"), "after an Update")
		p := o.joinWith(weighted(1)).Entry.Ref // an entry with data for other programs takes no marks
		o.mark(p, driver.MarkAdmitted)
		require.Equal(w.t, driver.MarkAdmitted, o.entries(queue)[2].Marks, "after an Update of marks")
		o.leave(p)
		o.describe(own, "detail")
		require.Equal(w.t, "detail", string(o.entries(queue)[1].Detail), "after an Update of the detail")
		o.leaveWith(driver.LeaveRequest{Ref: own, Ops: []driver.Op{op("limit", driver.Equal([]byte("4")), "")}})
		require.Equal(w.t, []driver.Ref{ahead}, refs(o.entries(queue)), "after a Leave")
		require.Empty(w.t, o.value("limit"), "after a Leave with an Op")
	}
}

// readFresh: a session that was shown the queue before asks what other sessions have done
// meanwhile, of which no answer and no event has come.
func readFresh(w *fixture) {
	o, other := w.open(), w.open()
	req := driver.ReadRequest{Queue: queue, Detail: true, Records: []string{"limit"}, Fresh: true}
	for i := range 10 {
		o.entries(queue)
		j := other.join(queue)
		other.set("limit", fmt.Sprint(i))
		v := o.read(req)
		require.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(v.Entries), "after a Join")
		require.Equal(w.t, fmt.Sprint(i), string(v.Records["limit"].Value), "after an Update")
		other.leave(j.Entry.Ref)
		require.Empty(w.t, o.read(req).Entries, "after a Leave")
	}
}

// readAfterEvent: on several servers, a watch and a read of one session may be on
// different ones, of which one lags. So this happens again and again, and to several.
// What targets that are no entry report is read in the topic target.
func readAfterEvent(w *fixture) {
	holder := w.open()
	all := []*owner{w.open(), w.open(), w.open()}
	for range 8 {
		e := holder.joinWith(writer()).Entry
		var watches []*recorder
		for _, o := range all {
			watches = append(watches, o.armedEntry("entry of another", e.Ref))
		}
		for _, o := range all {
			require.True(w.t, o.sees(e.Ref), "nor older than what was read before")
		}
		holder.mark(e.Ref, driver.MarkShared)
		for _, r := range watches {
			r.awaitMarks(driver.MarkShared)
			v := r.o.read(driver.ReadRequest{Queue: queue, Upto: e.Place, Nearest: 1, Marks: true})
			require.Equal(w.t, []driver.Ref{e.Ref}, refs(v.Entries))
			require.True(w.t, v.Entries[0].Shares(), "after Changed")
		}
		holder.leave(e.Ref)
		for _, r := range watches {
			r.awaitGone() // reads then
		}
	}
}

// atEachRequest prepares and reads, and acts at the first request of the read; then it
// does so again with an act at the second, until a read makes fewer requests.
func (o *owner) atEachRequest(prepare, act, read func()) {
	o.w.t.Helper()
	for n := 1; ; n++ {
		require.Less(o.w.t, n, 20, "a Read does not make so many requests")
		prepare()
		count := 0
		o.c.OnRequest(func() {
			count++
			if count == n {
				act()
			}
		})
		read()
		o.c.OnRequest(nil)
		if count < n {
			act() // as if it had been asked to
			return
		}
	}
}

// readOneMoment: the first of two entries leaves, and only then a third one joins. At no
// moment there are both, and at every moment there is the second.
func readOneMoment(w *fixture) {
	o, r := w.open(), w.open()
	for _, req := range []driver.ReadRequest{{}, {Upto: everything}, {Nearest: 1}, {Nearest: 2}, {Upto: everything, Nearest: 2}} {
		req.Queue, req.Marks, req.Detail, req.Records = queue, true, true, []string{"limit"}
		var all []driver.Ref
		r.atEachRequest(func() {
			w.clear()
			all = []driver.Ref{o.join(queue).Entry.Ref, o.join(queue).Entry.Ref}
			r.meet(all[1])
		}, func() {
			o.leave(all[0])
			all = append(all, o.join(queue).Entry.Ref)
		}, func() {
			got := refs(r.read(req).Entries)
			require.NotEmpty(w.t, got)
			require.Contains(w.t, all[:2], got[0], "the first at some moment")
			require.True(w.t, req.Nearest == 1 || slices.Contains(got, all[1]), "it is there at every moment")
			assert.False(w.t, len(all) == 3 && slices.Contains(got, all[0]) && slices.Contains(got, all[2]), "no moment has these: %v", got)
		})
	}
}

// clear deletes what is in the queue, as an operator does.
func (w *fixture) clear() {
	w.t.Helper()
	by := w.observe()
	for _, e := range by.list(queue) {
		way("Evict").delete(by, e.Ref, driver.Deleted, "it is there")
	}
	w.count(0, queue, "cleared")
}

// readRecordsLater: the limit is lowered, and only then the holder leaves. A view that
// lacks the holder and shows the old limit would show room that there never was.
func readRecordsLater(w *fixture) {
	o, r := w.open(), w.open()
	for _, req := range []driver.ReadRequest{{}, {Upto: everything}, {Upto: everything, Nearest: 1}} {
		req.Queue, req.Records = queue, []string{"limit"}
		for _, more := range []bool{false, true} {
			req.Marks, req.Detail = more, more
			var e driver.Ref
			r.atEachRequest(func() {
				o.set("limit", "10")
				e = o.join(queue).Entry.Ref
				r.meet(e) // from here on no answer is older
			}, func() {
				o.set("limit", "2")
				o.leave(e)
			}, func() {
				v := r.read(req)
				if len(v.Entries) == 0 {
					assert.Equal(w.t, "2", string(v.Records["limit"].Value), "it was lowered before")
				}
			})
		}
	}
}

// joinRecords: a record is written at each request of a join that asks for it.
func joinRecords(w *fixture) {
	o, by := w.open(), w.open()
	o.join(queue)
	by.atEachRequest(func() { o.set("limit", "before") }, func() { o.set("limit", "after") }, func() {
		req := plain()
		req.Records = []string{"limit", "done", "slot/"}
		j := by.joinWith(req)
		assert.Len(w.t, j.View.Records, 1, "those that exist")
		now := o.record(queue, "limit")
		if now.Token < j.Entry.Token {
			assert.Equal(w.t, now, j.View.Records["limit"], "it was written before the join")
		}
		by.leave(j.Entry.Ref)
	})
}

func readRecords(w *fixture) {
	o, by := w.open(), w.open()
	want := map[string]string{"limit": "3", "slot/0": "a", "slot/1": "b", "slot/10": "c", "slots": "no", "done": `{"x":[1,2]}`}
	for name, value := range want {
		o.set(name, value)
	}
	own := by.join(queue).Entry // which shows that they are there
	for i, names := range [][]string{{}, {"limit"}, {"slot/"}, {"slot/1"}, {"slot/1", "slots", "none"}, {"none/"}, {"slot/", "limit", "done"}} {
		for _, req := range []driver.ReadRequest{{}, {Upto: own.Place}, {Upto: own.Place, Nearest: 1, Marks: true, Detail: true}} {
			req.Queue, req.Records = queue, names
			got := make(map[string]string)
			for name, r := range by.read(req).Records {
				got[name] = string(r.Value)
				assert.Positive(w.t, r.Version)
				assert.Less(w.t, r.Token, own.Token, "it was written before the entry was made")
			}
			some := make(map[string]string)
			for name, value := range want {
				if slices.ContainsFunc(names, func(n string) bool { return n == name || n == "slot/" && strings.HasPrefix(name, n) }) {
					some[name] = value
				}
			}
			assert.Equal(w.t, some, got, "request %d: %q", i, names)
		}
	}
}

// readDetailGone: an entry is deleted while a Read asks for its data.
func readDetailGone(w *fixture) {
	o, r := w.open(), w.open()
	want := make(map[driver.Ref]string)
	var all []driver.Ref
	r.atEachRequest(func() {
		all = nil
		for _, data := range []string{"a", "b", "c"} {
			all = append(all, o.joinWith(valued(data)).Entry.Ref)
			want[all[len(all)-1]] = data
		}
		r.meet(all[2])
	}, func() {
		w.svc.Delete(w.t, all[1])
	}, func() {
		v := r.read(driver.ReadRequest{Queue: queue, Marks: true, Detail: true})
		require.Subset(w.t, all, refs(v.Entries))
		require.Subset(w.t, refs(v.Entries), []driver.Ref{all[0], all[2]})
		for _, e := range v.Entries {
			if e.Ref == all[1] && e.Data == nil {
				continue // "those of an entry that was deleted meanwhile are zero"
			}
			assert.Equal(w.t, want[e.Ref], string(e.Data))
			assert.Equal(w.t, o.ID(), e.Session)
			assert.Positive(w.t, e.Token)
		}
		o.leave(all[0], all[2])
	})
}
