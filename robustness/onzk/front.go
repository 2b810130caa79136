package onzk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/zktest"
)

// front is how far the store has come, and when: up to the transaction that a
// majority has in its logs. It costs the servers nothing, and no fault of theirs
// makes it blind.
type front struct {
	tails []*zktest.Tail
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu   sync.Mutex
	came []came
	err  error
}

type came struct {
	zxid int64
	at   history.Instant
}

// follow begins to look, in a goroutine that ends with close.
//
//nolint:contextcheck // it outlives the call
func follow(e *zktest.Ensemble) *front {
	ctx, stop := context.WithCancel(context.Background())
	f := &front{stop: stop}
	for i := range e.Len() {
		f.tails = append(f.tails, e.Member(i).Tail())
	}
	f.wg.Go(func() { f.look(ctx) })
	return f
}

func (f *front) look(ctx context.Context) {
	pace := time.NewTicker(trial.Poll)
	defer pace.Stop()
	for {
		f.step()
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
	}
}

// step looks once.
func (f *front) step() {
	var last []int64
	var errs []error
	for _, t := range f.tails {
		zxid, err := t.Last()
		last, errs = append(last, zxid), append(errs, err)
	}
	majority := ofMajority(last)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(errs...) // a member may be about to change its files
	if n := len(f.came); n == 0 || majority > f.came[n-1].zxid {
		f.came = append(f.came, came{majority, trial.Now()})
	}
}

// ofMajority is how far more than half of the members have come.
func ofMajority(last []int64) int64 {
	last = slices.Sorted(slices.Values(last))
	return last[(len(last)-1)/2]
}

// reaches waits for a transaction to be known to stay, and says since when it is.
// Whoever looks may be late on a slow machine.
func (f *front) reaches(ctx context.Context, zxid int64) (history.Instant, error) {
	for {
		f.mu.Lock()
		i := sort.Search(len(f.came), func(i int) bool { return f.came[i].zxid >= zxid })
		if i < len(f.came) {
			defer f.mu.Unlock()
			return f.came[i].at, nil
		}
		err := f.err
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("transaction %#x is not in the logs of a majority: %w", zxid, errors.Join(ctx.Err(), err))
		case <-time.After(trial.Poll):
		}
	}
}

// close says what went wrong last.
func (f *front) close() error {
	f.stop()
	f.wg.Wait()
	errs := []error{f.err}
	for _, t := range f.tails {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
