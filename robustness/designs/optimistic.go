package designs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/sqllocks"
	"github.com/fairlock/fairlock/robustness/onpg"
)

// versionsEnd is the end of the name of the file with the results of Optimistic.
const versionsEnd = "-versions.jsonl"

// Versioned is what programs that change one row without a lock have lost, and how often they have worked in vain.
type Versioned struct {
	Compare  string
	Programs int
	Changes  int // that were written
	Refused  int // works whose write came too late, and which were done again
	Lost     int // changes that are not in the amount
	Stale    int // writes that were accepted although the row had changed twice meanwhile, back to the same value
	Tries    int // of such writes
}

const (
	changes  = 30                   // of each program
	thinking = 5 * time.Millisecond // between a read and a write
	abas     = 20
)

// Optimistic measures a version column, and what it is compared with, on PostgreSQL.
func Optimistic(ctx context.Context, folder string) (all []*Versioned, err error) {
	s, err := onpg.Start(ctx, onpg.Direct)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, s.Close()) }() //nolint:contextcheck // it bounds itself
	dialect := sqllocks.Postgres()
	if err := s.Prepare(ctx, sqllocks.Schema, strings.Join(dialect.Tables, ";\n")); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(folder, onpg.Name+versionsEnd))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, file.Close()) }()
	out := json.NewEncoder(file)
	for _, compare := range []sqllocks.Compare{sqllocks.ByNothing, sqllocks.ByValue, sqllocks.ByVersion} {
		for _, programs := range []int{2, 10} {
			v := &Versioned{Compare: string(compare), Programs: programs, Tries: abas}
			err := v.measure(ctx, dialect, s.URL(), compare)
			if err == nil {
				err = out.Encode(v)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, nil
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// measure has several programs change one row.
func (v *Versioned) measure(ctx context.Context, dialect *sqllocks.Dialect, url string, compare sqllocks.Compare) error {
	name := fmt.Sprint(compare, v.Programs)
	refused, errs := make([]int, v.Programs), make([]error, v.Programs)
	var wg sync.WaitGroup
	db, err := dialect.Open(url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it is measured
	a := &sqllocks.Account{DB: db, Name: name, Compare: compare}
	if err := a.Make(ctx); err != nil {
		return err
	}
	for i := range v.Programs {
		wg.Go(func() {
			for range changes {
				n, err := a.Change(ctx, 1, func() { lockWait(ctx, thinking) })
				if err != nil {
					errs[i] = err
					return
				}
				refused[i] += n
			}
		})
	}
	wg.Wait()
	for i := range v.Programs {
		v.Refused += refused[i]
		err = firstOf(err, errs[i])
	}
	amount, _, readErr := a.Read(ctx)
	v.Changes = v.Programs * changes
	v.Lost = v.Changes - int(amount)
	return firstOf(firstOf(err, readErr), v.aba(ctx, a))
}

// aba has a program write that has read before others changed the row twice, to another value and back.
func (v *Versioned) aba(ctx context.Context, a *sqllocks.Account) error {
	for range abas {
		amount, version, err := a.Read(ctx)
		if err != nil {
			return err
		}
		for _, add := range []int64{100, -100} {
			if _, err := a.Change(ctx, add, func() {}); err != nil {
				return err
			}
		}
		written, err := a.Write(ctx, amount+1, amount, version)
		if err != nil {
			return err
		}
		if written {
			v.Stale++
		}
	}
	return nil
}
