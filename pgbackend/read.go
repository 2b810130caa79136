package pgbackend

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/session/driver"
)

// Read implements driver.Session. All answers come from the primary, after every commit that it
// has answered, so each is fresh.
func (s *pgSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.read(ctx, &req)
	if err != nil {
		return driver.View{}, fmt.Errorf("postgres: read %q: %w", req.Queue, err)
	}
	return v, nil
}

func (s *pgSession) read(ctx context.Context, req *driver.ReadRequest) (driver.View, error) {
	q := s.backend.layout.Queue(req.Queue)
	floor := s.floors.of(q)
	text := s.texts.Read
	if req.Detail {
		text = s.texts.ReadDetail
	}
	upto, from := req.Upto, req.From
	if from == 0 {
		from = upto
	}
	if upto == 0 {
		upto, from = math.MaxInt64, math.MinInt64
	}
	var v driver.View
	alive := true
	queues := make([]string, len(req.Records))
	for i := range queues {
		queues[i] = q
	}
	_, err := s.do(ctx, call.Request{
		Op: fault.Read,
		Queue: func(b *pgx.Batch, _ int) {
			b.Queue(text, q, floor, from, upto, limit(req.Nearest))
			b.Queue(s.texts.Count, q, floor, upto)
			if len(queues) > 0 {
				b.Queue(s.texts.Records, queues, req.Records)
			}
		},
		Scan: func(r pgx.BatchResults) error {
			v = driver.View{}
			rows, err := r.Query()
			if err != nil {
				return err //nolint:wrapcheck // the sender does
			}
			var e entryRow
			_, err = pgx.ForEachRow(rows, append([]any{&alive}, e.dests(true)...), func() error {
				if e.place != nil {
					v.Entries = append(v.Entries, e.entry(req.Queue))
				}
				return nil
			})
			if err == nil {
				err = r.QueryRow().Scan(&v.Count)
			}
			if err == nil && len(queues) > 0 {
				v.Records, err = s.records(r)
			}
			return err //nolint:wrapcheck // the sender does
		},
	})
	if err != nil {
		return driver.View{}, err
	}
	if !alive {
		return driver.View{}, s.over(errLife)
	}
	s.complete(q, req, &v)
	return v, nil
}

// complete finds out whether the view has all entries up to its end. The count is of a later
// moment than the entries: entries may have gone meanwhile, and without an Upto some may have come.
// So a count is trusted only for a limited read that got as many as it asked for.
func (s *pgSession) complete(q string, req *driver.ReadRequest, v *driver.View) {
	before := len(v.Entries)
	if req.Upto != 0 {
		from := req.From
		if from == 0 {
			from = req.Upto
		}
		before = 0
		for i := range v.Entries {
			if v.Entries[i].Place < from {
				before++
			}
		}
	}
	v.Complete = req.Nearest == 0 || before < req.Nearest
	if v.Complete {
		v.Count = len(v.Entries)
	} else {
		v.Count = max(v.Count, len(v.Entries))
	}
	if v.Complete && len(v.Entries) > 0 {
		s.floors.raise(q, v.Entries[0].Place)
	}
}

func (s *pgSession) records(r pgx.BatchResults) (map[string]driver.Record, error) {
	byName, err := scanRecords(r)
	if err != nil {
		return nil, err
	}
	all := map[string]driver.Record{}
	for _, some := range byName {
		for name, record := range some {
			all[name] = record
		}
	}
	return all, nil
}

// Names implements driver.Session.
func (s *pgSession) Names(ctx context.Context, prefix string) ([]string, error) {
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
				return err //nolint:wrapcheck // the sender does
			}
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err //nolint:wrapcheck // the sender does
		},
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: names with prefix %q: %w", prefix, err)
	}
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], begin)
	}
	return all, nil
}
