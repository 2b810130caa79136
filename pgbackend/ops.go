package pgbackend

import (
	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// opArgs are the ops of a request as the statements take them: an array for each field.
type opArgs struct {
	of              []int16
	names           []string
	kinds           []int16
	wanted          [][]byte
	versions        []int64
	values          [][]byte
	bound, optional []bool
}

// add appends the ops of the request with a number, which begins at 1.
func (a *opArgs) add(number int, ops []driver.Op) {
	for _, o := range ops {
		a.of = append(a.of, int16(number)) //nolint:gosec // at most maxJoin
		a.names = append(a.names, o.Record)
		a.kinds = append(a.kinds, int16(o.If.Kind))
		a.wanted = append(a.wanted, present(o.If.Value))
		a.versions = append(a.versions, o.If.Version)
		a.values = append(a.values, o.Value)
		a.bound = append(a.bound, o.Bound)
		a.optional = append(a.optional, o.Optional)
	}
}

// present returns a value that is not null: a condition compares with an empty one too.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

func (a *opArgs) args() []any {
	return []any{notNil(a.of), notNil(a.names), notNil(a.kinds), notNil(a.wanted), notNil(a.versions), notNil(a.values), notNil(a.bound), notNil(a.optional)}
}

// opRow is one op in an answer.
type opRow struct {
	i          *int64 // its number; nil in the row of a request without ops
	met, there *bool
	was        []byte
	at         *int64
}

func (o *opRow) dests() []any { return []any{&o.i, &o.met, &o.there, &o.was, &o.at} }

func (o *opRow) appendTo(all []opAnswer) []opAnswer {
	if o.i == nil {
		return all
	}
	a := opAnswer{met: o.met != nil && *o.met, there: o.there != nil && *o.there}
	if a.there && o.at != nil {
		a.was, a.at = append([]byte{}, o.was...), *o.at
	}
	return append(all, a)
}

// opAnswer is the record of an op before the request, and whether the condition held.
type opAnswer struct {
	met, there bool
	was        []byte
	at         int64
}

// record returns the record as it was.
func (a opAnswer) record() driver.Record {
	if !a.there {
		return driver.Record{}
	}
	return driver.Record{Value: a.was, Version: a.at, Token: a.at}
}

// result returns what became of an op of a request that was carried out: now, with this version
// of what it wrote; or by an earlier attempt, with the version earlier. The version of a record is
// the token of the write, so a record that an earlier attempt has written shows that it did. A
// required op was done with the rest of the request.
func (a opAnswer) result(op driver.Op, now, earlier *int64) driver.Result {
	switch {
	case now == nil && earlier == nil:
		return driver.Result{Record: a.record()}
	case now == nil:
		return driver.Result{Done: !op.Optional || a.there && a.at == *earlier, Record: a.record()}
	case !a.met:
		return driver.Result{Record: a.record()}
	case op.Value == nil:
		return driver.Result{Done: true}
	case op.If.Kind == driver.IfEqualOrAbsent && a.there:
		return driver.Result{Done: true, Record: a.record()} // nothing was written
	}
	return driver.Result{Done: true, Record: driver.Record{Value: op.Value, Version: *now, Token: *now}}
}

// scanRecords reads the answer to Records, by the number of the name that asked for a record.
func scanRecords(r pgx.BatchResults) (map[int]map[string]driver.Record, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	all := map[int]map[string]driver.Record{}
	var i int
	var name string
	var value []byte
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&i, &name, &value, &version}, func() error {
		if all[i] == nil {
			all[i] = map[string]driver.Record{}
		}
		all[i][name] = driver.Record{Value: append([]byte{}, value...), Version: version, Token: version}
		return nil
	})
	return all, err
}

// entryRow is one row of table entry in an answer. All is nil where a queue has none.
type entryRow struct {
	place, session, weight *int64
	mode, marks            *int16
	valued                 *bool
	data, detail           []byte
}

// dests returns where the columns go, with those of the data if whole.
func (e *entryRow) dests(whole bool) []any {
	all := []any{&e.place, &e.session, &e.mode, &e.weight, &e.marks, &e.valued}
	if whole {
		all = append(all, &e.data, &e.detail)
	}
	return all
}

// entry returns the entry. Its place is its token too: both come from one sequence, drawn under the lock
// of the queue.
func (e *entryRow) entry(queue string) driver.Entry {
	return driver.Entry{
		Ref:  driver.Ref{Queue: queue, Key: layout.Key(*e.session, *e.place), Place: *e.place},
		Mode: driver.Mode(*e.mode), Weight: *e.weight, Marks: driver.Marks(*e.marks), Valued: *e.valued, //nolint:gosec // small numbers
		Token: *e.place, Session: layout.SessionID(*e.session),
		Data: clone(e.data), Detail: clone(e.detail),
	}
}

// clone copies what the next row overwrites.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
