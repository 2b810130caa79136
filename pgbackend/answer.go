package pgbackend

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/session/driver"
)

// answer is what an attempt has returned. Each attempt begins with a new one, so that nothing stays of
// one that failed half way. The first four are in the order in which the server finds them out: what
// comes after one that rules the attempt out is not looked at, see join.done.
type answer struct {
	alive    bool // the store has the life of the session
	isolated bool // READ COMMITTED, so that the snapshot is younger than the lock
	member   bool // the session has its fence
	refused  bool // a later attempt, or Settle, came first

	place   *int64 // of new entries; the numbers of all are the same
	old     *int64 // of those of an earlier attempt
	taken   *int64 // the number of the request whose queue was not empty
	ops     []opAnswer
	views   []view
	records []map[string]driver.Record
}

// view is what is ahead of an entry, or the first entry of a queue that was not empty.
type view struct {
	place   *int64
	ahead   int
	entries []driver.Entry
}

// scan reads the answer to an attempt, in the order in which queue has sent the statements.
func (j *join) scan(r pgx.BatchResults) error {
	j.answer = answer{views: make([]view, len(j.reqs)), records: make([]map[string]driver.Record, len(j.reqs))}
	a := &j.answer
	if _, err := r.Exec(); err != nil { // the locks
		return err
	}
	if j.one() {
		return j.scanOne(r)
	}
	if len(j.calls) > 1 {
		if err := exec(r, 2); err != nil {
			return err
		}
	}
	rows, err := r.Query()
	if err != nil {
		return err
	}
	var told int64
	var op opRow
	_, err = pgx.ForEachRow(rows, append([]any{&a.alive, &a.isolated, &a.member, &a.refused, &a.old, &a.taken, &a.place}, append(op.dests(), &told)...), func() error {
		a.ops = op.appendTo(a.ops)
		return nil
	})
	if err == nil {
		err = j.scanOwn(r)
	}
	if err == nil {
		err = j.scanRecords(r)
	}
	if err == nil && !a.isolated {
		err = call.ErrNotIsolated
	}
	return err
}

// scanOne reads the short form. It answers with a place or with nothing. Where there is none, the reason
// is not known: the caller sends the long form then, which costs a round trip in that rare case only.
func (j *join) scanOne(r pgx.BatchResults) error {
	if j.reqs[0].IfEmpty {
		return j.scanTry(r)
	}
	a, v := &j.answer, &j.answer.views[0]
	var quiet bool
	err := r.QueryRow().Scan(&a.place, &quiet)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	a.alive, a.isolated, a.member = true, true, true
	v.place = a.place
	rows, err := r.Query()
	if err != nil {
		return err
	}
	var e entryRow
	_, err = pgx.ForEachRow(rows, append([]any{&v.ahead}, e.dests(false)...), func() error {
		v.entries = append(v.entries, e.entry(j.reqs[0].Queue))
		return nil
	})
	slices.Reverse(v.entries)
	return err
}

// scanTry reads the short form of a join that wants an empty queue. It has one row in any case: a queue
// that is taken costs no second request.
func (j *join) scanTry(r pgx.BatchResults) error {
	a, v := &j.answer, &j.answer.views[0]
	var e entryRow
	dests := append([]any{&a.alive, &a.isolated, &a.member, &a.refused, &a.place, &v.ahead}, e.dests(true)...)
	if err := r.QueryRow().Scan(dests...); err != nil {
		return err
	}
	v.place = a.place
	if e.place != nil {
		v.entries = append(v.entries, e.entry(j.reqs[0].Queue))
	}
	if a.place == nil && e.place != nil {
		first := int64(1)
		a.taken = &first
	}
	if !a.isolated {
		return call.ErrNotIsolated
	}
	return nil
}

// scanOwn reads what is ahead of each entry. It is of a later statement than the insert, under the same
// locks: so it also shows what an earlier attempt has made.
func (j *join) scanOwn(r pgx.BatchResults) error {
	rows, err := r.Query()
	if err != nil {
		return err
	}
	var i, ahead int
	var place *int64
	var e entryRow
	_, err = pgx.ForEachRow(rows, append([]any{&i, &place, &ahead}, e.dests(true)...), func() error {
		v := &j.answer.views[i-1]
		v.place, v.ahead = place, ahead
		if e.place != nil {
			v.entries = append(v.entries, e.entry(j.reqs[i-1].Queue))
		}
		return nil
	})
	return err
}

// scanRecords reads the records. The statement numbers the names of all requests one after the other, from 1 on.
func (j *join) scanRecords(r pgx.BatchResults) error {
	all, err := scanRecords(r)
	if err != nil {
		return err
	}
	at := 0
	for i := range j.reqs {
		for range j.reqs[i].Records {
			at++
			for name, record := range all[at] {
				if j.answer.records[i] == nil {
					j.answer.records[i] = map[string]driver.Record{}
				}
				j.answer.records[i][name] = record
			}
		}
	}
	return nil
}
