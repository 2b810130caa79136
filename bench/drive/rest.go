package drive

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// Rest is a job in which all contenders wait for a holder of another crew, and nothing happens.
// It measures how they join, and counts what they send meanwhile.
type Rest struct {
	Settle time.Duration // how long nothing must happen before it counts
	For    time.Duration // how long it counts
}

// RestResult is the result of a Rest.
type RestResult struct {
	Joins       time.Duration // until all have joined
	Spent       stand.Spent   // by the servers, until all watch what they wait for
	Connections int           // of all clients of the servers, if the stand counts them
	Sent        stand.Counts  // in the time of rest, periodic requests and those of renewals included
}

func (r Rest) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (result RestResult, err error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	spent, err := stand.SpentOn(ctx, s)
	if err != nil {
		return result, err
	}
	began := time.Now()
	var g errgroup.Group
	for _, waiter := range t.Contenders {
		g.Go(func() error {
			if unlock, err := waiter.Lock(waiting, name); err == nil {
				_ = unlock() // some are granted while all are stopped
			}
			return nil
		})
	}
	err = joined(ctx, s, t.QueueOf(name), len(t.Contenders)+1)
	result.Joins = time.Since(began)
	if err == nil {
		err = r.count(ctx, s, t, spent, &result)
	}
	return result, errors.Join(err, t.StopWaiters(cancel), g.Wait())
}

// count counts when all have joined.
func (r Rest) count(ctx context.Context, s stand.Stand, t *stand.Team, spent stand.Spent, result *RestResult) error {
	if err := t.Quiet(ctx, r.Settle); err != nil {
		return err
	}
	now, err := stand.SpentOn(ctx, s)
	if err != nil {
		return err
	}
	result.Spent = now.Since(spent)
	result.Connections, err = stand.ConnectionsOf(ctx, s)
	if err != nil {
		return err
	}
	before := t.Sent()
	err = stand.Sleep(ctx, r.For)
	result.Sent = t.Sent().Since(before)
	return err
}
