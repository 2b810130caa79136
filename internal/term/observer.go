package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// observer is a service session to read with where there is no live term. It makes no
// entries and needs no lease. It is opened when it is needed first, and another one is
// opened when it is over.
type observer struct {
	of *Terms

	// turn is full while s is looked at, opened or closed, and for ever after close. A channel and not a
	// mutex, because an opening takes long, and each caller waits only as long as its ctx lets it.
	turn chan struct{}

	// s is the service session; nil before the first use, and after a failure to replace one. It may
	// be over: only a caller that has tried it finds out.
	s driver.Session
}

func newObserver(of *Terms) *observer { return &observer{of: of, turn: make(chan struct{}, 1)} }

// do calls f with the service session, which it opens if need be, and returns the error of
// f or of the opening. If f finds the session over, do calls it once more, with another one. A
// service that ends that one too is not available: no caller knows the session.
func (o *observer) do(ctx context.Context, f func(context.Context, driver.Session) error) error {
	var s driver.Session
	var err error
	for range 2 {
		s, err = o.open(ctx, s)
		if err == nil {
			err = f(ctx, s)
		}
		if !errors.Is(err, driver.ErrSessionOver) {
			return err
		}
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, err.Error())
}

// open returns the service session. If that is the one that the caller has found over, open
// opens another one. If another caller has replaced it meanwhile, that one is returned: callers that
// find a session over together open one new session, not one each.
func (o *observer) open(ctx context.Context, over driver.Session) (driver.Session, error) {
	ctx, cancel := Either(ctx, o.of.ctx)
	defer cancel()
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx) //nolint:wrapcheck // the caller's own error
	}
	switch {
	case o.of.ctx.Err() != nil:
		return nil, driver.ErrClosed
	case o.s != nil && o.s != over:
		return o.s, nil
	case o.s != nil:
		o.s.Abandon()
		o.s = nil
	}
	cfg := &o.of.cfg
	s, err := cfg.Backend.Open(ctx, driver.Config{
		Observer: true, Margin: cfg.Margin, Logger: cfg.Logger,
		Renewed: func(driver.Instant, time.Duration, time.Duration) {},
		Gone:    func(error) {}, // the next read finds that out
	})
	if err != nil {
		return nil, fmt.Errorf("open a session to read with: %w", driver.JoinErrors(context.Cause(ctx), err))
	}
	o.s = s
	return s, nil
}

// close closes the service session, when the context of the Terms has ended. Reads that it
// serves end with an error.
//
//nolint:contextcheck // Close takes no context, it is bounded by our own clock
func (o *observer) close() error {
	o.turn <- struct{}{} // for ever
	if o.s == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(context.Background(), o.of.clock, closeTimeout)
	defer cancel()
	return o.s.Close(ctx) //nolint:wrapcheck // the backend's own error
}
