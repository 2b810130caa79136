package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// tryTimeout is how long a try goes on while the service does not answer.
const tryTimeout = 5 * time.Second

// try is acquire for requests that are not to wait. A timeout is no *NotAcquired, nor is the end
// of ctx before there is an answer: it is not known whether the lock is free. So the cause of ctx
// is not in the chain of the error: it can be the error of another try, if an errgroup ended ctx
// with that. The first line that applies decides:
//
//	acquire has returned                           try returns
//	a hold, or no *NotAcquired                     the same
//	*NotAcquired: others are ahead                 the same
//	ctx has ended, while a Delay was waited for    the same: the service has answered
//	ctx has ended, and no session could be opened  ErrUnavailable, with both in its text
//	ctx has ended                                  ErrUnavailable, with ctx's own error
//	only tryTimeout has passed                     ErrUnavailable
func (c *call) try(ctx context.Context) (*Handle, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := c.e.info.Clock
	stop := clock.AfterFunc(tryTimeout, cancel)
	defer func() { stop() }()
	delayed := false
	c.delays = func(d time.Duration) {
		if d == 0 && !delayed {
			return
		}
		delayed = d > 0
		stop()
		stop = clock.AfterFunc(d+tryTimeout, cancel)
	}
	h, err := c.acquire(inner)
	e, ok := errors.AsType[*NotAcquired](err)
	if !ok || e.Err == nil {
		return h, err
	}
	ended, unavailable := ctx.Err() != nil, errors.Is(e.Err, driver.ErrUnavailable)
	switch {
	case ended && delayed: // the service has answered: the delay was what it waited for
		return nil, err
	case ended && unavailable: // its text has the cause of ctx, and why no session could be opened
		return nil, fmt.Errorf("%w: %w: %s", driver.ErrUnavailable, ctx.Err(), e.Err.Error())
	case ended:
		return nil, driver.ContextError(ctx)
	case unavailable:
		return nil, fmt.Errorf("no answer within %s: %w", tryTimeout, e.Err)
	}
	return nil, fmt.Errorf("%w: no answer within %s", driver.ErrUnavailable, tryTimeout)
}

// mustWait finds out by a read whether a try has to wait, so that nothing is written if so,
// and returns why. Nil promises nothing: others may join before, and the entry is refused then.
//
//	the queue is empty                    nil
//	a semaphore without a limit           nil: the join makes it
//	a semaphore with another limit        rule.LimitError
//	more permits than there are           rule.WeightError
//	the rule lets it hold                 nil
//	else                                  driver.TakenError, with the first entry
func (qs *queues) mustWait(ctx context.Context, r Request) error {
	req := driver.ReadRequest{Queue: r.Name, Marks: true}
	if r.Rule.Limited {
		req.Records = []string{rule.RecordLimit}
	}
	v, err := qs.s.Read(ctx, req)
	if err != nil || len(v.Entries) == 0 {
		return err //nolint:wrapcheck // the backend's own error
	}
	limit, err := rule.LimitOf(r.Name, v.Records[rule.RecordLimit])
	if err != nil {
		return err
	}
	ahead := rule.Ahead{Complete: true, Count: len(v.Entries), Limit: limit}
	switch {
	case !r.Rule.Limited:
	case ahead.Limit == 0:
		return nil // the join makes it
	case ahead.Limit != r.Limit && !r.Follow:
		return &rule.LimitError{Limit: ahead.Limit, Asked: r.Limit}
	}
	for i := range v.Entries {
		ahead.Entries = append(ahead.Entries, &v.Entries[i])
	}
	mine := driver.Entry{Ref: driver.Ref{Queue: r.Name, Place: math.MaxInt64}, Mode: r.Mode, Weight: r.Weight}
	d := r.Rule.Decide(ahead, &mine)
	switch {
	case d.Never:
		return rule.WeightError(r.Weight, ahead.Limit) //nolint:wrapcheck // the caller of the recipe gets it as it is
	case d.Hold:
		return nil
	}
	return &driver.TakenError{Queue: r.Name, First: v.Entries[0], Count: len(v.Entries)}
}
