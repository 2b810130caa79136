package drivertest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// records: values next to a queue, with versions.
func records() []testCase {
	return []testCase{
		{"ABoundRecordEndsWithItsSessionOnly", recordBound},
		{"ARecordIsNoEntryAndOutlivesThem", recordAlone},
		{"QueuesHaveTheirOwnRecords", recordQueues},
		{"TheTokenOfARecordIsThatOfItsTransaction", recordTokens},
		{"OneOfSeveralFirstJoinsMakesARecord", recordJoinRace},
		{"OneOfSeveralUpdatesMakesARecord", recordUpdateRace},
		{"ChangesAtAVersionLoseNothing", recordChanges},
	}
}

func recordBound(w *fixture) {
	for _, e := range endings()[1:3] { // of the session
		o, other := w.open(), w.open()
		a, b := o.join(queue).Entry.Ref, other.join(queue).Entry.Ref
		o.update(driver.UpdateRequest{Queue: queue, Entry: a, Ops: []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}})
		other.update(driver.UpdateRequest{Queue: queue, Entry: b, Ops: []driver.Op{bound(op("slot/1", driver.Absent(), "others"))}})
		w.svc.Delete(w.t, a)
		other.fresh(queue)
		assert.Equal(w.t, "mine", other.value("slot/0"), "it is bound to the session, not to the entry")
		other.leave(b)
		assert.Equal(w.t, "mine", other.value("slot/0"), "nor to another")
		o.leave(a)
		other.fresh(queue)
		assert.Equal(w.t, "mine", other.value("slot/0"), "only Ops delete it")
		assert.Equal(w.t, "others", other.value("slot/1"))
		e.end(o, a)
		other.fresh(queue)
		assert.Empty(w.t, other.value("slot/0"), "it ended with its session: %s", e)
		assert.Equal(w.t, "others", other.value("slot/1"), "the other lives")
		require.NoError(w.t, other.end())
	}
}

// recordAlone: records are neither counted nor named, and delay no entry.
func recordAlone(w *fixture) {
	o, by := w.open(), w.observe()
	all := []string{"limit", "ledger", "done", "slot/0", "slot/17"}
	for _, name := range all {
		o.set(name, "value")
	}
	named := func(want []string) {
		w.t.Helper()
		names, err := o.Names(w.soon(), "")
		require.NoError(w.t, err)
		assert.ElementsMatch(w.t, want, names, "only queues with entries have a name")
	}
	w.count(0, queue, "a record is no entry")
	named(nil)
	assert.Empty(w.t, o.list(queue))
	req := plain()
	req.IfEmpty = true
	checkView(w, o.joinWith(req), nil)
	named([]string{queue})
	require.NoError(w.t, o.end())
	by.fresh(queue)
	assert.Len(w.t, by.read(driver.ReadRequest{Queue: queue, Records: append(all, "slot/")}).Records, len(all), "they stay until they are deleted")
}

func recordQueues(w *fixture) {
	o := w.open()
	all := []string{queue, queue + "/deep", queue + "2", "orders", driver.AskQueue(queue), "slot", "limit"}
	for i, name := range all {
		o.update(driver.UpdateRequest{Queue: name, Ops: []driver.Op{
			op("limit", driver.Absent(), fmt.Sprint(i)), op("slot/0", driver.Absent(), fmt.Sprint("slot-", i)),
		}})
	}
	for i, name := range all {
		got := o.read(driver.ReadRequest{Queue: name, Records: []string{"limit", "slot/"}}).Records
		require.Len(w.t, got, 2, "%q", name)
		assert.Equal(w.t, fmt.Sprint(i), string(got["limit"].Value), "%q", name)
		assert.Equal(w.t, fmt.Sprint("slot-", i), string(got["slot/0"].Value), "%q", name)
	}
}

// recordTokens: a record's token compares with those of entries.
func recordTokens(w *fixture) {
	o, other := w.open(), w.open()
	last := other.join(queue).Entry.Token
	rises := func(token int64, why string) {
		w.t.Helper()
		assert.Greater(w.t, token, last, why)
		last = token
	}
	// written returns a record, which an answer shows, too. If a machine stood still and the
	// request was sent again, the answer need not show what the first attempt has done.
	written := func(by *owner, name string, r driver.Result) driver.Record {
		w.t.Helper()
		now := by.record(queue, name)
		if r.Done || w.h.Virtual {
			assert.Equal(w.t, now, r.Record)
		}
		return now
	}
	req := plain()
	req.Ops = []driver.Op{op("ledger", driver.Absent(), "j-1")}
	j := o.joinWith(req)
	rises(j.Entry.Token, "tokens rise")
	ledger := written(o, "ledger", j.Ops[0])
	assert.Equal(w.t, last, ledger.Token, "one transaction, one token")
	result := o.update(driver.UpdateRequest{Queue: queue, Entry: j.Entry.Ref, Ops: []driver.Op{op("ledger", driver.At(ledger.Version), "h-1")}})[0]
	rises(written(o, "ledger", result).Token, "the record was written after the join")
	rises(other.join(queue).Entry.Token, "the join came after the write")
	for range 3 { // a slot that goes from one to another, not in the order of their entries
		for _, by := range []*owner{o, other} {
			results := by.update(driver.UpdateRequest{Queue: queue, Ops: []driver.Op{bound(op("slot/0", driver.Absent(), by.ID()))}})
			rises(written(by, "slot/0", results[0]).Token, "it rises with every write")
			by.set("slot/0", "")
		}
	}
}

// raced has several sessions call something at once; one must succeed, and the others be
// refused.
func raced(w *fixture, call func(o *owner, value string) error) {
	owners := []*owner{w.open(), w.open(), w.open(), w.open()}
	var mu sync.Mutex
	var won []string
	var all sync.WaitGroup
	for i, o := range owners {
		all.Go(func() {
			value := fmt.Sprint("of-", i)
			err := call(o, value)
			mu.Lock()
			defer mu.Unlock()
			var refused *driver.RefusedError
			if err == nil {
				won = append(won, value)
			} else if assert.ErrorAs(w.t, err, &refused) && refused.Known {
				assert.NotEqual(w.t, value, string(refused.Record.Value))
			}
		})
	}
	all.Wait()
	require.Len(w.t, won, 1, "one of them has made it")
	owners[0].fresh(queue)
	assert.Equal(w.t, won[0], owners[0].value("slot/0"), "its value is there")
}

func recordJoinRace(w *fixture) {
	raced(w, func(o *owner, value string) error {
		req := plain()
		req.Ops = []driver.Op{op("slot/0", driver.EqualOrAbsent([]byte(value)), value)}
		_, err := o.Join(w.soon(), req)
		return err
	})
	w.count(1, queue, "the others left no entry")
}

func recordUpdateRace(w *fixture) {
	raced(w, func(o *owner, value string) error {
		_, err := o.Update(w.soon(), driver.UpdateRequest{Queue: queue, Ops: []driver.Op{bound(op("slot/0", driver.Absent(), value))}})
		return err
	})
}

// recordChanges has two sessions add letters to a record at the same time.
func recordChanges(w *fixture) {
	const letters = "abcdefgh"
	one, two := w.open(), w.open()
	var all sync.WaitGroup
	add := func(o *owner, letters string) {
		for i := 0; i < len(letters); {
			v, err := o.Read(w.ctx, driver.ReadRequest{Queue: queue, Records: []string{"done"}})
			if !assert.NoError(w.t, err) {
				return
			}
			r := v.Records["done"]
			_, err = o.Update(w.ctx, driver.UpdateRequest{Queue: queue, Ops: []driver.Op{op("done", driver.At(r.Version), string(r.Value)+letters[i:i+1])}})
			var refused *driver.RefusedError
			if err == nil {
				i++
			} else if !assert.ErrorAs(w.t, err, &refused) {
				return
			}
		}
	}
	all.Go(func() { add(one, letters[:4]) })
	all.Go(func() { add(two, letters[4:]) })
	all.Wait()
	one.fresh(queue)
	for letter := range strings.SplitSeq(letters, "") {
		assert.Equal(w.t, 1, strings.Count(one.value("done"), letter), letter)
	}
}
