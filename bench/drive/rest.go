package drive

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// Rest is a job in which all contenders wait for a holder of another crew, and nothing happens.
// It counts what they send meanwhile.
type Rest struct {
	Settle time.Duration // how long nothing must happen before it counts
	For    time.Duration // how long it counts
}

// run returns what the clients send in the time of rest, periodic requests and those of renewals
// included.
func (r Rest) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (sent stand.Counts, err error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
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
	if err == nil {
		err = t.Quiet(ctx, r.Settle)
	}
	if err == nil {
		before := t.Sent()
		err = stand.Sleep(ctx, r.For)
		sent = t.Sent().Since(before)
	}
	return sent, errors.Join(err, t.StopWaiters(cancel), g.Wait())
}
