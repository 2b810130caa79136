package pgbackend

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/session/driver"
)

// read is one call of Read.
type read struct {
	s   *pgSession
	req *driver.ReadRequest

	alive bool
	view  driver.View
}

// do returns the view. The entries are of one statement, so of one moment. The count and the records
// come from later statements of the same transaction, each with a later snapshot: as the contract
// has it, records are never older than the entries.
func (r *read) do(ctx context.Context) (driver.View, error) {
	s, req := r.s, r.req
	q := s.backend.layout.Queue(req.Queue)
	floor := s.floors.of(q)
	text := s.texts.Read
	if req.Detail {
		text = s.texts.ReadDetail
	}
	upto, from := req.Upto, r.from()
	if upto == 0 {
		upto, from = math.MaxInt64, math.MinInt64
	}
	_, err := s.do(ctx, call.Request{
		Op: fault.Read,
		Queue: func(b *pgx.Batch, _ int) {
			b.Queue(text, q, floor, from, upto, oneMore(req.Nearest))
			b.Queue(s.texts.Count, q, floor, upto)
			if len(req.Records) > 0 {
				b.Queue(s.texts.Records, slices.Repeat([]string{q}, len(req.Records)), req.Records)
			}
		},
		Scan: r.scan,
	})
	switch {
	case err != nil:
		return driver.View{}, err
	case !r.alive:
		return driver.View{}, s.over(errLife)
	}
	r.complete()
	if (r.view.Complete || req.Upto == 0) && len(r.view.Entries) > 0 {
		s.floors.raise(q, r.view.Entries[0].Place)
	}
	return r.view, nil
}

// from is the first place of interest.
func (r *read) from() int64 { return cmp.Or(r.req.From, r.req.Upto) }

// scan reads an answer, which begins with a row that has the life also where the queue is empty.
func (r *read) scan(answer pgx.BatchResults) error {
	r.view = driver.View{}
	rows, err := answer.Query()
	if err != nil {
		return err
	}
	var e entryRow
	_, err = pgx.ForEachRow(rows, append([]any{&r.alive}, e.dests(true)...), func() error {
		if e.place != nil {
			r.view.Entries = append(r.view.Entries, e.entry(r.req.Queue))
		}
		return nil
	})
	if err == nil {
		err = answer.QueryRow().Scan(&r.view.Count)
	}
	if err != nil || len(r.req.Records) == 0 {
		return err
	}
	byName, err := scanRecords(answer)
	r.view.Records = map[string]driver.Record{}
	for _, some := range byName {
		maps.Copy(r.view.Records, some)
	}
	return err
}

// oneMore returns a number of entries of which one more is read: if it is there, the view is not
// complete without it.
func oneMore(nearest int) *int64 {
	if nearest > 0 {
		nearest++
	}
	return limit(nearest)
}

// complete leaves out the entry too many, and finds out whether the view has all entries up to its
// end. The count is of a later moment than the entries, so it counts only where the view is not
// complete.
func (r *read) complete() {
	v := &r.view
	before := len(v.Entries)
	if r.req.Upto != 0 {
		before = 0
		for i := range v.Entries {
			if v.Entries[i].Place < r.from() {
				before++
			}
		}
	}
	v.Complete = r.req.Nearest == 0 || before <= r.req.Nearest
	switch {
	case v.Complete:
		v.Count = len(v.Entries)
		return
	case r.req.Upto == 0:
		v.Entries = v.Entries[:len(v.Entries)-1]
	default:
		v.Entries = v.Entries[1:]
	}
	v.Count = max(v.Count, len(v.Entries)+1)
}

// names returns the names of queues with entries.
func names(ctx context.Context, s *pgSession, prefix string) ([]string, error) {
	begin := s.backend.layout.Names()
	var all []string
	_, err := s.do(ctx, call.Request{
		Op: fault.Names,
		Queue: func(b *pgx.Batch, _ int) {
			// No character is behind the last one of Unicode.
			b.Queue(s.texts.Names, begin+prefix, begin+prefix+"\U0010FFFF\U0010FFFF")
		},
		Scan: func(r pgx.BatchResults) error {
			rows, err := r.Query()
			if err != nil {
				return err
			}
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], begin)
	}
	return all, nil
}
