package pgbackend

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// What one Join can hold. PostgreSQL has no limit near these.
const (
	maxJoin   = 64
	maxData   = 1 << 20
	maxDetail = 2 << 10
)

// join is one call of Join. Its attempts have a number each. A repeated one refuses all earlier
// ones, and takes over what one of them has made:
//
//	first attempt      lock, make the entries
//	later ones         lock, refuse the earlier ones, take over their entries or make new ones
//	given up (Settle)  lock, refuse all, delete their entries
//
// All are done under the locks of the queues. So an attempt that arrives late, after one of the
// others, finds that it is refused, and one that arrives earlier is found.
type join struct {
	s      *pgSession
	reqs   []driver.JoinRequest
	queues []string // the stored names
	floors []int64
	keys   []int64 // of the locks, rising
	calls  []int64 // of the attempts so far

	answer answer // of the last attempt
}

// answer is what an attempt has returned.
type answer struct {
	alive, isolated, member, refused bool
	place                            *int64 // of new entries; the numbers of all are the same
	old                              *int64 // of those of an earlier attempt
	taken                            *int64 // the number of the request whose queue was not empty
	ops                              []opAnswer
	views                            []view
	records                          []map[string]driver.Record
}

// view is what is ahead of an entry, or the first entry of a queue that was not empty.
type view struct {
	place   *int64
	ahead   int
	entries []driver.Entry
}

// do makes the entries, or returns why not.
func (j *join) do(ctx context.Context) ([]driver.Joined, error) {
	size, err := j.prepare()
	if err != nil {
		return nil, err
	}
	unknown, err := j.s.do(ctx, call.Request{Op: fault.Join, Size: size, Queue: j.queue, Scan: j.scan})
	if err == nil {
		return j.done()
	}
	if unknown {
		return nil, &driver.PendingError{Err: err, Settle: j.settle}
	}
	return nil, err
}

// prepare fills in what all attempts need, and returns about how many bytes one sends.
func (j *join) prepare() (size int, err error) {
	s := j.s
	switch {
	case s.id == 0:
		return 0, fmt.Errorf("%w: an observer makes no entries", driver.ErrRefused)
	case len(j.reqs) > maxJoin:
		return 0, fmt.Errorf("%w: %d queues are more than %d", driver.ErrRefused, len(j.reqs), maxJoin)
	}
	for i := range j.reqs {
		r := &j.reqs[i]
		q := s.backend.layout.Queue(r.Queue)
		switch {
		case len(r.Data) > maxData:
			return 0, fmt.Errorf("%w: the data has %d bytes, more than %d", driver.ErrRefused, len(r.Data), maxData)
		case slices.Contains(j.queues, q):
			return 0, fmt.Errorf("%w: queue %q is there twice", driver.ErrRefused, r.Queue)
		}
		size += len(r.Data)
		j.queues = append(j.queues, q)
		j.floors = append(j.floors, s.floors.of(q))
		j.keys = append(j.keys, s.backend.layout.Lock(q))
	}
	slices.Sort(j.keys)
	return size, nil
}

// one reports whether the attempt has the short form.
func (j *join) one() bool {
	return len(j.reqs) == 1 && len(j.calls) == 1 && len(j.reqs[0].Ops) == 0 && len(j.reqs[0].Records) == 0
}

func (j *join) queue(b *pgx.Batch, _ int) {
	j.calls = append(j.calls, random())
	t, now := &j.s.texts, j.calls[len(j.calls)-1]
	earlier := j.calls[:len(j.calls)-1]
	b.Queue(t.Fence, j.s.id, j.keys)
	if j.one() {
		r := &j.reqs[0]
		args := []any{j.queues[0], j.s.id, now, int16(r.Mode), r.Weight, r.Valued, r.Data, bounded(r.Detail), j.floors[0]}
		if r.IfEmpty {
			b.Queue(t.TryOne, args...)
		} else {
			b.Queue(t.JoinOne, append(args, limit(r.Nearest))...)
		}
		return
	}
	if len(earlier) > 0 {
		b.Queue(t.Void, j.s.id, earlier)
		b.Queue(t.Partial, j.s.id, earlier, j.queues)
	}
	n := len(j.reqs)
	modes, weights, valued, empty := make([]int16, n), make([]int64, n), make([]bool, n), make([]bool, n)
	data, details, nearest := make([][]byte, n), make([][]byte, n), make([]*int64, n)
	var ops opArgs
	var recordQueues, recordNames []string
	for i := range j.reqs {
		r := &j.reqs[i]
		modes[i], weights[i], valued[i], empty[i] = int16(r.Mode), r.Weight, r.Valued, r.IfEmpty
		data[i], details[i], nearest[i] = r.Data, bounded(r.Detail), limit(r.Nearest)
		ops.add(i+1, r.Ops)
		for _, name := range r.Records {
			recordQueues, recordNames = append(recordQueues, j.queues[i]), append(recordNames, name)
		}
	}
	args := []any{j.s.id, now, notNil(earlier), j.queues, modes, weights, valued, data, details, empty, j.floors}
	b.Queue(t.JoinMany, append(args, ops.args()...)...)
	b.Queue(t.Own, j.s.id, j.calls, j.queues, j.floors, nearest)
	b.Queue(t.Records, notNil(recordQueues), notNil(recordNames))
}

// bounded returns a detail, or nil for one that is longer than the contract allows.
func bounded(detail []byte) []byte {
	if len(detail) > maxDetail {
		return nil
	}
	return detail
}

// limit returns a number of entries as the statements take it: null for all.
func limit(n int) *int64 {
	if n <= 0 {
		return nil
	}
	l := int64(n)
	return &l
}

// notNil returns an array that is not null.
func notNil[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func (j *join) scan(r pgx.BatchResults) error {
	j.answer = answer{views: make([]view, len(j.reqs)), records: make([]map[string]driver.Record, len(j.reqs))}
	a := &j.answer
	if _, err := r.Exec(); err != nil { // the locks
		return err //nolint:wrapcheck // the sender does
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
		return err //nolint:wrapcheck // the sender does
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
	return err //nolint:wrapcheck // the sender does
}

func (j *join) scanOne(r pgx.BatchResults) error {
	a := &j.answer
	rows, err := r.Query()
	if err != nil {
		return err //nolint:wrapcheck // the sender does
	}
	v := &a.views[0]
	var e entryRow
	dests := append([]any{&a.alive, &a.isolated, &a.member, &a.refused, &a.place, &v.ahead}, e.dests(j.reqs[0].IfEmpty)...)
	_, err = pgx.ForEachRow(rows, dests, func() error {
		if e.place != nil {
			v.entries = append(v.entries, e.entry(j.reqs[0].Queue))
		}
		return nil
	})
	if err != nil {
		return err //nolint:wrapcheck // the sender does
	}
	v.place = a.place
	slices.Reverse(v.entries)
	if j.reqs[0].IfEmpty && a.place == nil && len(v.entries) > 0 {
		first := int64(1)
		a.taken = &first
	}
	if !a.isolated {
		return call.ErrNotIsolated
	}
	return nil
}

func (j *join) scanOwn(r pgx.BatchResults) error {
	rows, err := r.Query()
	if err != nil {
		return err //nolint:wrapcheck // the sender does
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
	return err //nolint:wrapcheck // the sender does
}

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

// done returns what the last attempt has made, or why it made nothing. The order of the cases
// counts: an attempt that found another life or no session has looked at nothing else.
//
//	alive  member  place or old  refused  taken   outcome
//	false  -       -             -        -       the session is over: another life
//	true   false   -             -        -       the session is over: it was ended
//	true   true    there         -        -       done, by this attempt or by an earlier one
//	true   true    -             true     -       not done: Settle or a later attempt came first
//	true   true    -             false    there   not done: TakenError
//	true   true    -             false    -       not done: RefusedError
func (j *join) done() ([]driver.Joined, error) {
	a := &j.answer
	if err := j.s.verdict(a.alive, a.member); err != nil {
		return nil, err
	}
	made := a.place != nil || a.old != nil
	switch {
	case made:
	case a.refused:
		return nil, fmt.Errorf("%w: the attempt was refused", driver.ErrUnavailable) // no other call knows its number
	case a.taken != nil:
		i := *a.taken - 1
		v := a.views[i]
		taken := &driver.TakenError{Queue: j.reqs[i].Queue, Count: v.ahead}
		if len(v.entries) > 0 {
			taken.First = v.entries[0]
		}
		return nil, taken
	default:
		return nil, j.refusal()
	}
	joined := make([]driver.Joined, len(j.reqs))
	for i := range j.reqs {
		joined[i] = j.joined(i)
	}
	return joined, nil
}

// refusal returns the first required op whose condition does not hold.
func (j *join) refusal() error {
	at := 0
	for i := range j.reqs {
		for _, op := range j.reqs[i].Ops {
			o := j.answer.ops[at]
			if !o.met && !op.Optional {
				return &driver.RefusedError{Queue: j.reqs[i].Queue, Op: op, Record: o.record(), Known: true}
			}
			at++
		}
	}
	return fmt.Errorf("%w: nothing was done, for no reason", driver.ErrRefused)
}

// joined returns what became of one request. The hub knows of the entry before the caller does: a
// watch that the caller begins next finds out whether one of ours is behind its target. A queue with
// no entry ahead has none below this place, and never will.
func (j *join) joined(i int) driver.Joined {
	r, v := &j.reqs[i], j.answer.views[i]
	place := int64(0)
	if v.place != nil {
		place = *v.place
	}
	s := j.s
	s.hub.Joined(j.queues[i], place)
	if v.ahead == 0 {
		s.floors.raise(j.queues[i], place)
	}
	out := driver.Joined{
		Entry: driver.Entry{
			Ref:  driver.Ref{Queue: r.Queue, Key: layout.Key(s.id, place), Place: place},
			Mode: r.Mode, Weight: r.Weight, Valued: r.Valued, Token: place, Session: s.ID(), Data: r.Data, Detail: bounded(r.Detail),
		},
		View: driver.View{Entries: v.entries, Count: v.ahead, Complete: len(v.entries) == v.ahead, Records: j.answer.records[i]},
	}
	first := 0
	for k := range i {
		first += len(j.reqs[k].Ops)
	}
	for k, op := range r.Ops {
		out.Ops = append(out.Ops, j.answer.ops[first+k].result(op, j.answer.place, j.answer.old))
	}
	return out
}

// settle makes sure that no attempt has made an entry, or will. It needs no session: where that is
// over, so are its entries, and no attempt finds its fence.
func (j *join) settle(ctx context.Context) error {
	var queues, names []string
	for i := range j.reqs {
		for _, op := range j.reqs[i].Ops {
			if op.If.Kind == driver.IfAbsent {
				queues, names = append(queues, j.queues[i]), append(names, op.Record)
			}
		}
	}
	_, err := j.s.after.Do(ctx, call.Request{
		Op: fault.Settle,
		Queue: func(b *pgx.Batch, _ int) {
			b.Queue(j.s.texts.Lock, j.keys)
			b.Queue(j.s.texts.SettleVoid, j.s.id, j.calls)
			b.Queue(j.s.texts.Settle, j.s.id, j.calls, j.queues, notNil(queues), notNil(names))
		},
		Scan: func(r pgx.BatchResults) error {
			return exec(r, 3)
		},
	})
	if err != nil {
		return fmt.Errorf("postgres: settle a join of %q: %w", j.reqs[0].Queue, err)
	}
	return nil
}
