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

// commitTracker records when each transaction was committed, that is, in the logs of a
// majority. It reads the log files, so it costs the servers nothing, and no fault of theirs
// stops it.
type commitTracker struct {
	tails []*zktest.Tail
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	commits []committed
	err     error
}

// committed is the newest committed transaction, and when it was first read.
type committed struct {
	zxid int64
	at   history.Instant
}

// follow starts a commitTracker, whose goroutine ends with close.
//
//nolint:contextcheck // it outlives the call
func follow(e *zktest.Ensemble) *commitTracker {
	ctx, stop := context.WithCancel(context.Background())
	t := &commitTracker{stop: stop}
	for i := range e.Len() {
		t.tails = append(t.tails, e.Member(i).Tail())
	}
	t.wg.Go(func() { t.poll(ctx) })
	return t
}

func (t *commitTracker) poll(ctx context.Context) {
	pace := time.NewTicker(trial.Poll)
	defer pace.Stop()
	for {
		t.step()
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
	}
}

// step reads all logs once.
func (t *commitTracker) step() {
	var last []int64
	var errs []error
	for _, tail := range t.tails {
		zxid, err := tail.Last()
		last, errs = append(last, zxid), append(errs, err)
	}
	majority := committedByMajority(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = errors.Join(errs...) // a member may be about to change its files
	n := len(t.commits)
	if n == 0 || majority > t.commits[n-1].zxid {
		t.commits = append(t.commits, committed{majority, trial.Now()})
	}
}

// committedByMajority returns the newest transaction in the logs of a majority. last has
// the newest transaction in the log of each member.
func committedByMajority(last []int64) int64 {
	last = slices.Sorted(slices.Values(last))
	return last[(len(last)-1)/2]
}

// reaches waits until a transaction is committed, and returns when step first read that.
// On a slow machine that may be late.
func (t *commitTracker) reaches(ctx context.Context, zxid int64) (history.Instant, error) {
	for {
		t.mu.Lock()
		i := sort.Search(len(t.commits), func(i int) bool { return t.commits[i].zxid >= zxid })
		if i < len(t.commits) {
			defer t.mu.Unlock()
			return t.commits[i].at, nil
		}
		err := t.err
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("transaction %#x is not in the logs of a majority: %w", zxid, errors.Join(ctx.Err(), err))
		case <-time.After(trial.Poll):
		}
	}
}

// close returns the errors of the last step, and of closing the logs.
func (t *commitTracker) close() error {
	t.stop()
	t.wg.Wait()
	errs := []error{t.err}
	for _, tail := range t.tails {
		errs = append(errs, tail.Close())
	}
	return errors.Join(errs...)
}
