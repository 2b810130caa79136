package pgbackend

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// update is one call of Update. All of its attempts have one number. The one that changes records
// leaves it in table done, so that none is carried out twice, and the last one learns that an
// earlier one was.
type update struct {
	s      *pgSession
	req    *driver.UpdateRequest
	queue  string
	call   int64
	number int64   // orders the changes of an entry's data
	forget []int64 // the marks that this call deletes

	alive   bool       // the store has the life of the session
	member  bool       // the session has its fence
	done    bool       // an earlier attempt was carried out
	there   bool       // the entry is
	version *int64     // of what this attempt has written; nil if it has done nothing
	ops     []opAnswer // in the order of req.Ops
}

// do carries the update out.
//
//	done   version  entry   outcome
//	true   -        -       an earlier attempt was carried out: the records show what it left
//	false  there    -       done
//	false  null     gone    ErrGone. Had an earlier attempt changed records, done would be true; marks
//	                        and data have gone with the entry
//	false  null     there   RefusedError
func (u *update) do(ctx context.Context) ([]driver.Result, error) {
	s := u.s
	u.queue, u.call, u.number = s.backend.layout.Queue(u.req.Queue), random(), s.backend.next()
	for _, op := range u.req.Ops {
		if op.Bound && s.id == 0 {
			return nil, fmt.Errorf("%w: an observer binds no records", driver.ErrRefused)
		}
	}
	if len(u.req.Data) > maxData {
		return nil, fmt.Errorf("%w: the data has %d bytes, more than %d", driver.ErrRefused, len(u.req.Data), maxData)
	}
	if !u.req.Entry.Zero() {
		session, _ := layout.SessionOf(u.req.Entry)
		if session != s.id {
			return nil, driver.ErrGone
		}
	}
	u.forget = s.forget.some()
	if _, err := s.do(ctx, call.Request{Op: fault.Update, Size: len(u.req.Data), Queue: u.send, Scan: u.scan}); err != nil {
		return nil, err
	}
	if err := s.verdict(u.alive, u.member); err != nil {
		return nil, err
	}
	switch {
	case u.done:
	case u.version == nil && !u.req.Entry.Zero() && !u.there:
		return nil, driver.ErrGone
	case u.version == nil:
		return nil, u.refusal()
	}
	s.forget.remove(u.forget)
	if len(u.req.Ops) > 0 {
		s.forget.add(u.call)
	}
	results := make([]driver.Result, len(u.req.Ops))
	for i, op := range u.req.Ops {
		if u.done {
			// The earlier attempt has done what was required. A record shows what it left, unless
			// others have written it since.
			results[i] = driver.Result{Done: !op.Optional, Record: u.ops[i].record()}
			continue
		}
		results[i] = u.ops[i].result(op, u.version, nil)
	}
	return results, nil
}

// refusal returns the first required op whose condition does not hold.
func (u *update) refusal() error {
	for i, op := range u.req.Ops {
		if !u.ops[i].met && !op.Optional {
			return &driver.RefusedError{Queue: u.req.Queue, Op: op, Record: u.ops[i].record(), Known: true}
		}
	}
	return fmt.Errorf("%w: nothing was done, for no reason", driver.ErrRefused)
}

// send adds the statements of an attempt. All attempts of a call have the same number, so the second one
// finds in table done that the first was carried out. An observer has no fence, and locks the queue alone.
func (u *update) send(b *pgx.Batch, _ int) {
	s, keys := u.s, []int64{u.s.backend.layout.Lock(u.queue)}
	if s.id == 0 {
		b.Queue(s.texts.Lock, keys)
	} else {
		s.fence(b, keys)
	}
	var ops opArgs
	ops.add(1, u.req.Ops)
	args := []any{
		s.id, s.id != 0, u.call, u.queue, u.req.Entry.Place, int16(u.req.Marks), u.req.Data, bounded(u.req.Detail),
		u.number, layout.Channel(s.secret, u.queue), notNil(u.forget),
	}
	b.Queue(s.texts.Update, append(args, ops.args()...)...)
}

func (u *update) scan(r pgx.BatchResults) error {
	u.ops = nil
	if _, err := r.Exec(); err != nil {
		return err
	}
	rows, err := r.Query()
	if err != nil {
		return err
	}
	var told int64
	var op opRow
	dests := append([]any{&u.alive, &u.member, &u.done, &u.there, &u.version, &told}, op.dests()...)
	_, err = pgx.ForEachRow(rows, dests, func() error {
		u.ops = op.appendTo(u.ops)
		return nil
	})
	return err
}
