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

// do makes the entries, or returns why not.
func (j *join) do(ctx context.Context) ([]driver.Joined, error) {
	size, err := j.prepare()
	if err != nil {
		return nil, err
	}
	request := call.Request{Op: fault.Join, Size: size, Queue: j.queue, Scan: j.scan}
	unknown, err := j.s.do(ctx, request)
	if err == nil && j.one() && !j.reqs[0].IfEmpty && j.answer.place == nil {
		unknown, err = j.s.do(ctx, request) // the long form shows why nothing was made
	}
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
	j.s.fence(b, j.keys)
	if j.one() {
		r := &j.reqs[0]
		args := []any{j.queues[0], j.s.id, now, int16(r.Mode), r.Weight, r.Valued, r.Data, bounded(r.Detail)}
		if r.IfEmpty {
			b.Queue(t.TryOne, append(args, j.floors[0])...)
			return
		}
		b.Queue(t.JoinOne, args...)
		b.Queue(t.Ahead, j.queues[0], j.floors[0], now, limit(r.Nearest))
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
