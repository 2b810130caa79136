package drivertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// ops: every method that takes Ops, with every condition, met and not met, required and
// optional, that writes, deletes, and writes what is bound to the session.
func ops() []testCase {
	return slices.Concat(
		over("OpsOf%vAreDoneIfTheirConditionIsMet", verbs(), func(w *fixture, v verb) { opsTable(w, v, false) }),
		over("OptionalOpsOf%vNeverFailIt", verbs(), func(w *fixture, v verb) { opsTable(w, v, true) }),
		[]testCase{{"RefusedOptionalOpsCostOneMoreRequestEach", opsCost}},
	)
}

// verb is a way to have Ops done.
type verb struct {
	name string
	kind fault.Op
	all  bool // all its Ops are optional

	// call has the Ops done, and returns a function that reports whether that which the
	// request is for has been done: an entry made, left or written. No entry stays.
	call func(ctx context.Context, o *owner, ops []driver.Op) (results []driver.Result, done func() bool, err error)
}

// String names the verb in the names of cases.
func (v verb) String() string { return v.name }

func verbs() []verb {
	return []verb{
		{name: "Join", kind: fault.Join, call: opsOfJoin},
		{name: "Leave", kind: fault.Leave, all: true, call: opsOfLeave},
		{name: "Update", kind: fault.Update, call: opsOfUpdate},
		{name: "UpdateOfRecords", kind: fault.Update, call: func(ctx context.Context, o *owner, ops []driver.Op) ([]driver.Result, func() bool, error) {
			results, err := o.Update(ctx, driver.UpdateRequest{Queue: queue, Ops: ops})
			return results, nil, err
		}},
	}
}

//nolint:contextcheck // what prepares and finishes it has a context of its own, also below
func opsOfJoin(ctx context.Context, o *owner, ops []driver.Op) ([]driver.Result, func() bool, error) {
	req := plain()
	req.Ops = ops
	js, err := o.Join(ctx, req)
	done := func() bool {
		made := o.w.svc.Count(o.w.t, queue)
		require.Contains(o.w.t, []int{0, 1}, made)
		o.leave(joinedRefs(js)...)
		return made == 1
	}
	if err != nil {
		return nil, done, err
	}
	return js[0].Ops, done, nil
}

//nolint:contextcheck // see opsOfJoin
func opsOfLeave(ctx context.Context, o *owner, ops []driver.Op) ([]driver.Result, func() bool, error) {
	e := o.joinWith(plain()).Entry
	_, err := o.Leave(ctx, driver.LeaveRequest{Ref: e.Ref, Ops: ops})
	return nil, func() bool { return !o.sees(e.Ref) }, err
}

//nolint:contextcheck // see opsOfJoin
func opsOfUpdate(ctx context.Context, o *owner, ops []driver.Op) ([]driver.Result, func() bool, error) {
	e := o.joinWith(valued("old")).Entry.Ref
	results, err := o.Update(ctx, driver.UpdateRequest{Queue: queue, Entry: e, Data: []byte("new"), Ops: ops})
	return results, func() bool {
		data := o.only(queue).Data
		o.leave(e)
		return string(data) == "new"
	}, err
}

// row is a condition, and a record for which it is met or not.
type row struct {
	name string
	had  []string // what the record had, in this order; "" for a deletion
	cond func(once driver.Record) driver.Cond
	met  bool
	kept bool // if met, nothing is written
}

func rows() []row {
	always := func(c driver.Cond) func(driver.Record) driver.Cond {
		return func(driver.Record) driver.Cond { return c }
	}
	absent, equal, either := always(driver.Absent()), always(driver.Equal([]byte("a"))), always(driver.EqualOrAbsent([]byte("a")))
	at := func(once driver.Record) driver.Cond { return driver.At(once.Version) }
	return []row{
		{"Absent, of none", nil, absent, true, false},
		{"Absent, of one", []string{"a"}, absent, false, false},
		{"Absent, of one that was deleted", []string{"a", ""}, absent, true, false},
		{"Equal, of none", nil, equal, false, false},
		{"Equal, of the same", []string{"a"}, equal, true, false},
		{"Equal, of another", []string{"b"}, equal, false, false},
		{"Equal, of the same once more", []string{"a", "b", "a"}, equal, true, false},
		{"EqualOrAbsent, of none", nil, either, true, false},
		{"EqualOrAbsent, of the same", []string{"a"}, either, true, true},
		{"EqualOrAbsent, of another", []string{"b"}, either, false, false},
		{"At, of the same", []string{"a"}, at, true, false},
		{"At, of one written since", []string{"a", "b"}, at, false, false},
		{"At, of one written since with the same value", []string{"a", "b", "a"}, at, false, false},
		{"At, of one deleted since", []string{"a", ""}, at, false, false},
		{"At, of one deleted and made since", []string{"a", "", "a"}, at, false, false},
		{"At 0, of none", nil, always(driver.At(0)), true, false},
		{"At 0, of one", []string{"a"}, always(driver.At(0)), false, false},
	}
}

// opCase is one row of a table with an Op: its condition, and the change if the condition is met.
type opCase struct {
	row
	bound, deletes bool
}

// opCases returns all rows with the Ops that make sense for them: none deletes a record that
// must be absent, and none binds a record that is there and not bound.
func opCases() []opCase {
	var all []opCase
	for _, r := range rows() {
		last := ""
		if len(r.had) > 0 {
			last = r.had[len(r.had)-1]
		}
		all = append(all, opCase{r, false, false})
		if last == "" || !r.met {
			all = append(all, opCase{r, true, false})
		}
		kind := r.cond(driver.Record{Version: 1}).Kind
		if kind == driver.IfEqual || kind == driver.IfAt {
			all = append(all, opCase{r, false, true})
		}
	}
	return all
}

func (x opCase) String() string {
	return fmt.Sprintf("%s (bound: %t, deletes: %t)", x.name, x.bound, x.deletes)
}

// prepare gives the record what it had, and returns the Op and the record as it is now.
func (x opCase) prepare(o *owner, name string) (driver.Op, driver.Record) {
	var once driver.Record
	for i, value := range x.had {
		o.set(name, value)
		if i == 0 {
			once = o.record(queue, name)
		}
	}
	written := "new-" + name[len("row/"):]
	if x.deletes {
		written = ""
	}
	return driver.Op{Record: name, If: x.cond(once), Value: op(name, driver.Cond{}, written).Value, Bound: x.bound}, o.record(queue, name)
}

// opsTable runs each row. A row whose results are not exact runs again, with other records.
func opsTable(w *fixture, v verb, optionals bool) {
	table, by := &opTable{w: w, o: w.open(), v: v, optionals: optionals}, w.open()
	all := opCases()
	for i, x := range all {
		round := 0
		w.exact(func() bool {
			round++
			return table.run(x, i+(round-1)*2*len(all))
		}, "%v: the results are those of one attempt", x)
	}
	require.NoError(w.t, table.o.end())
	by.join(queue) // which shows what was before it
	got := by.read(driver.ReadRequest{Queue: queue, Records: []string{"row/"}}).Records
	for _, name := range table.stay {
		assert.Contains(w.t, got, name, "it is not bound")
	}
	for _, name := range table.ended {
		assert.NotContains(w.t, got, name, "bound records end with their session")
	}
}

// opTable is a table under way.
type opTable struct {
	w           *fixture
	o           *owner
	v           verb
	optionals   bool
	ended, stay []string // records that end with o, and that do not
}

// run runs a row together with a second Op whose condition is met. It reports whether the
// results are exact. That is not so if an earlier attempt may have done the Ops.
func (tb *opTable) run(x opCase, i int) (exact bool) {
	w, o := tb.w, tb.o
	w.t.Helper()
	name, with := fmt.Sprint("row/", i), fmt.Sprint("with/", i)
	first, was := x.prepare(o, name)
	first.Optional = tb.optionals || tb.v.all
	second := op(with, driver.Absent(), "with")
	second.Optional = tb.v.all
	ops := []driver.Op{first, second}
	if i%2 == 1 {
		slices.Reverse(ops)
	}
	results, done, err := tb.v.call(w.soon(), o, ops)
	if i%2 == 1 {
		slices.Reverse(results)
	}
	now := o.record(queue, name)
	if !first.Optional && !x.met {
		checkRefused(w, err, first, was)
		assert.Equal(w.t, was, now, "%v: nothing was done", x)
		assert.Empty(w.t, o.value(with), "%v: nothing was done", x)
		assert.False(w.t, done != nil && done(), "%v: nothing was done", x)
		return true
	}
	require.NoError(w.t, err, "%v", x)
	assert.True(w.t, done == nil || done(), "%v: what the request is for was done", x)
	assert.Equal(w.t, !w.h.NoOptional || !second.Optional, o.value(with) == "with", "%v: the other Op", x)
	met := x.met && !(w.h.NoOptional && first.Optional)
	x.check(w, first, met, was, now)
	if now.Version > 0 && met && x.bound {
		tb.ended = append(tb.ended, name)
	} else if now.Version > 0 {
		tb.stay = append(tb.stay, name)
	}
	return results == nil || x.exact(w, results, met, now)
}

// check compares the record with what the Op should have made of it.
func (x opCase) check(w *fixture, op driver.Op, met bool, was, now driver.Record) {
	w.t.Helper()
	switch {
	case !met, x.kept:
		assert.Equal(w.t, was, now, "%v: it stays", x)
	case x.deletes:
		assert.Zero(w.t, now, "%v: it was deleted", x)
	default:
		assert.Equal(w.t, string(op.Value), string(now.Value), "%v: it was written", x)
		assert.NotEqual(w.t, was.Version, now.Version, "%v: with another version", x)
		assert.Greater(w.t, now.Token, was.Token, "%v: and a higher token", x)
	}
}

// exact compares the results with the record as it is. If the first attempt was not answered,
// they may show less than what one answer shows.
func (x opCase) exact(w *fixture, results []driver.Result, met bool, now driver.Record) bool {
	w.t.Helper()
	require.Len(w.t, results, 2, "a result for each Op")
	x.shows(w, results[0], met, now)
	shown := !results[0].Done || now.Version == results[0].Record.Version
	return results[0].Done == met && results[1].Done && shown
}

// shows requires that a result is right, as far as it is known.
func (x opCase) shows(w *fixture, got driver.Result, met bool, now driver.Record) {
	w.t.Helper()
	assert.True(w.t, met || !got.Done, "%v: Done", x)
	if got.Record.Version != 0 {
		assert.Equal(w.t, now, got.Record, "%v: the record as the answer shows it", x)
	}
}

func checkRefused(w *fixture, err error, op driver.Op, was driver.Record) {
	w.t.Helper()
	var refused *driver.RefusedError
	require.ErrorAs(w.t, err, &refused, "%v", op)
	assert.Equal(w.t, queue, refused.Queue)
	assert.Equal(w.t, op.Record, refused.Op.Record)
	if refused.Known {
		assert.Equal(w.t, was, refused.Record, "as it was")
	}
}

// opsCost: a request is sent again without what the service refuses. Leave is not held up
// by that: the entry is gone after the second request.
func opsCost(w *fixture) {
	o, by := w.open(), w.open()
	by.set("ledger", "others")
	by.set("slot/0", "others")
	o.join("elsewhere")
	refused := []driver.Op{op("ledger", driver.Equal([]byte("mine")), ""), bound(op("slot/0", driver.Absent(), "mine"))}
	done := driver.Op{Record: "slot/1", If: driver.Absent(), Value: []byte("mine")}
	for n := 1; n <= len(refused); n++ {
		ops := append(slices.Clone(refused[:n]), done)
		for i := range ops {
			ops[i].Optional = true
		}
		cost := func(act func()) int {
			before := o.c.Requests()
			act()
			return o.c.Requests() - before
		}
		w.exact(func() bool {
			alone := cost(func() { _, _, _ = opsOfLeave(w.soon(), o, nil) })
			by.set("slot/1", "") // so that no more than n are refused
			return cost(func() { _, _, _ = opsOfLeave(w.soon(), o, ops) }) <= alone+n
		}, "requests of a Leave with %d refused Ops", n)
		w.exact(func() bool {
			by.set("slot/1", "")
			return o.leftWithin(2, driver.LeaveRequest{Ref: o.joinWith(plain()).Entry.Ref, Ops: ops})
		}, "deleted by the second request")
		req := plain()
		req.Ops = ops
		w.exact(func() bool {
			by.set("slot/1", "")
			var e driver.Joined
			took := cost(func() { e = o.joinWith(req) })
			o.leave(e.Entry.Ref)
			return took <= 1+n
		}, "requests of a Join with %d refused Ops", n)
	}
}

// leftWithin has the only entry of the queue left, and reports whether it was gone before the
// request after so many.
func (o *owner) leftWithin(requests int, req driver.LeaveRequest) bool {
	w := o.w
	w.t.Helper()
	count, left := 0, 0
	o.c.OnRequest(func() {
		count++
		if count == requests+1 {
			left = w.svc.Count(w.t, queue)
		}
	})
	o.leaveWith(req)
	o.c.OnRequest(nil)
	w.count(0, queue, "it is gone")
	return left == 0
}
