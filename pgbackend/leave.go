package pgbackend

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// leave is one call of Leave. It can be repeated: what is gone is skipped.
type leave struct {
	s        *pgSession
	reqs     []driver.LeaveRequest
	queues   []string
	sessions []int64 // of the entries; 0 for a Ref that no entry here has
	keys     []int64 // of the locks, rising

	short bool // the attempt is to have the short form
	alive bool
	locks int64
	gone  []bool // which entries the last attempt has deleted
}

// do deletes the entries.
//
//	locks  alive  entry deleted  outcome
//	0      -      -              WasGone or Unclear: the session is over, and with it its entries
//	> 0    false  -              the session is over: another life. Nothing was deleted
//	> 0    true   true           Deleted: the fence was locked, so the session lived
//	> 0    true   false          Unclear after an attempt without an answer, else WasGone
//
// An observer has no fence; it locks the queues alone, and its life is compared as any other.
func (l *leave) do(ctx context.Context) ([]driver.Left, error) {
	s, reqs := l.s, l.reqs
	for i := range reqs {
		q := s.backend.layout.Queue(reqs[i].Ref.Queue)
		session, _ := layout.SessionOf(reqs[i].Ref)
		if !reqs[i].Any && session != s.id {
			session = 0 // no entry has it
		}
		l.queues, l.sessions = append(l.queues, q), append(l.sessions, session)
		l.keys = append(l.keys, s.backend.layout.Lock(q))
	}
	slices.Sort(l.keys)
	l.keys = slices.Compact(l.keys)
	l.short = len(reqs) == 1 && len(reqs[0].Ops) == 0 && !reqs[0].Any
	unknown, err := s.do(ctx, call.Request{Op: fault.Leave, Queue: l.queue, Scan: l.scan})
	if err != nil {
		return nil, err
	}
	if l.short && !l.gone[0] {
		l.short = false // the long form shows why nothing was deleted
		_, err = s.do(ctx, call.Request{Op: fault.Leave, Queue: l.queue, Scan: l.scan})
		if err != nil {
			return nil, err
		}
	}
	if l.s.id != 0 && l.locks == 0 {
		// The session is over, and with it its entries: they went in the same transaction.
		_ = s.gone()
	} else if !l.alive {
		return nil, s.over(errLife)
	}
	left := make([]driver.Left, len(reqs))
	for i := range reqs {
		left[i] = driver.WasGone
		switch {
		case l.gone[i]:
			left[i] = driver.Deleted
		case unknown:
			left[i] = driver.Unclear
		}
		s.hub.Left(reqs[i].Ref, reqs[i].First && l.gone[i])
	}
	return left, nil
}

// queue adds the statements of an attempt. The short form is that of nearly every release. It needs no
// fence, see layout.leaveOne.
func (l *leave) queue(b *pgx.Batch, _ int) {
	t := &l.s.texts
	switch {
	case l.short:
		b.Queue(t.LockOne, l.keys[0])
	case l.s.id == 0:
		b.Queue(t.Lock, l.keys)
	default:
		l.s.fence(b, l.keys)
	}
	channels := make([]string, len(l.reqs))
	places, first, always := make([]int64, len(l.reqs)), make([]int16, len(l.reqs)), make([]bool, len(l.reqs))
	var ops opArgs
	for i := range l.reqs {
		r := &l.reqs[i]
		channels[i] = layout.Channel(l.s.secret, l.queues[i])
		places[i], always[i] = r.Ref.Place, r.Any
		if r.First {
			first[i] = 1
		}
		ops.add(i+1, r.Ops)
	}
	if l.short {
		sql := t.LeaveOne
		if l.s.hub.Behind(l.queues[0], places[0]) {
			sql = t.LeaveAhead
		}
		b.Queue(sql, l.queues[0], places[0], l.sessions[0], channels[0], first[0])
		return
	}
	args := []any{l.s.id, l.queues, places, l.sessions, channels, first, always}
	b.Queue(t.LeaveMany, append(args, ops.args()...)...)
}

// scan reads an answer. The last columns only make the server send its notices.
func (l *leave) scan(r pgx.BatchResults) error {
	l.gone = make([]bool, len(l.reqs))
	var marks *int16
	var silent, quiet bool
	if l.short {
		if err := exec(r, 1); err != nil {
			return err
		}
		err := r.QueryRow().Scan(&marks, &silent, &quiet)
		l.gone[0], l.alive, l.locks = err == nil, true, 1
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	}
	if err := r.QueryRow().Scan(&l.locks); err != nil {
		return err
	}
	rows, err := r.Query()
	if err != nil {
		return err
	}
	var i int
	var told int64
	_, err = pgx.ForEachRow(rows, []any{&l.alive, &i, &marks, &told, &silent, &quiet}, func() error {
		l.gone[i-1] = marks != nil
		return nil
	})
	return err
}
