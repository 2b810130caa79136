package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// line is the one lock that all wait for.
const line = "line"

// Waiters has n wait for one lock, through so many sessions. The lock goes from
// one to the next down the whole line, and the grants must be in the order of the
// tokens, which is the order in which the service took the requests. Then n wait
// again and all give up at once.
func Waiters(ctx context.Context, s Store, n, sessions int) (*Result, error) {
	return scenario(ctx, s, "waiters", n, sessions, func(ctx context.Context, r *run) error {
		if err := r.handDown(ctx, n); err != nil {
			return err
		}
		if err := r.back(ctx, momentRest, r.idle); err != nil {
			return err
		}
		if err := r.giveUp(ctx, n); err != nil {
			return err
		}
		return r.back(ctx, "rest after giving up", r.idle)
	})
}

// crowd is many who wait for the one lock.
type crowd struct {
	r       *run
	holder  *session.Hold
	waiting errgroup.Group
	leave   context.CancelFunc

	mu     sync.Mutex
	tokens []session.Token // in the order of grants
	gaveUp int
}

// gather has n wait behind a holder, until all stand in line and are watched.
func (r *run) gather(ctx context.Context, n int) (c *crowd, err error) {
	c = &crowd{r: r}
	if c.holder, err = mutex.New(r.sessions[0], line).Lock(ctx); err != nil {
		return c, err
	}
	waiting, leave := context.WithCancel(ctx)
	c.leave = leave
	for i := range n {
		c.waiting.Go(func() error { return c.wait(waiting, r.sessions[i%len(r.sessions)], line) })
		if came := i + 1; came == n || len(r.sessions) > 1 && came%wave == 0 {
			if err := r.stood(ctx, came+1); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// wave is how many come at once where they are of several sessions. One session
// sends no more requests at a time than a server can answer in time; a hundred
// that each send a hundred are more than one etcd member bears when each request
// counts a line of thousands: leases are not renewed in time then.
const wave = 500

// stood waits until so many stand in line.
func (r *run) stood(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d stand in line", n), func() (bool, error) {
		there, err := r.s.Line(ctx, line)
		return there == n, err
	})
}

// wait waits for a lock and gives it back.
func (c *crowd) wait(ctx context.Context, s *session.Session, name string) error {
	h, err := mutex.New(s, name).Lock(ctx)
	c.mu.Lock()
	switch {
	case err == nil:
		c.tokens = append(c.tokens, h.Token())
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		c.gaveUp++
		err = nil
	}
	c.mu.Unlock()
	if h == nil || err != nil {
		return err
	}
	return c.r.unlock(h)
}

// stand waits until no watch is being made any more, and notes how long that took.
func (r *run) stand(ctx context.Context) error {
	err := r.phase("stand", func() error {
		return steady(ctx, "how many watches there are", func() (int64, error) {
			f, err := r.s.Server(ctx)
			return f.Watches, err
		})
	})
	r.res.Phases[len(r.res.Phases)-1].Took -= quietFor
	return err
}

// crowded has n wait behind a holder, in a phase of that name, and calls f when no
// watch of theirs is being made any more. Who waits after that is told to leave.
func (r *run) crowded(ctx context.Context, phase string, n int, f func(*crowd) error) error {
	var c *crowd
	err := r.phase(phase, func() (err error) {
		c, err = r.gather(ctx, n)
		return err
	})
	if c.leave != nil {
		defer c.leave()
	}
	if err != nil {
		return err
	}
	if err := r.stand(ctx); err != nil {
		return err
	}
	return f(c)
}

func (r *run) handDown(ctx context.Context, n int) error {
	return r.crowded(ctx, "join", n, func(c *crowd) error {
		if _, err := r.moment(ctx, momentPeak); err != nil {
			return err
		}
		err := r.phase("hand on", func() error { return errors.Join(r.unlock(c.holder), c.waiting.Wait()) })
		if err != nil {
			return err
		}
		return c.inOrder(n)
	})
}

// inOrder checks that all n were granted, in order.
func (c *crowd) inOrder(n int) error {
	if len(c.tokens) != n {
		return fmt.Errorf("%d of %d were granted", len(c.tokens), n)
	}
	last := c.holder.Token()
	for i, t := range c.tokens {
		if t <= last {
			return fmt.Errorf("grant %d of %d has the token %d, and %d was before", i, n, t, last)
		}
		last = t
	}
	return nil
}

func (r *run) giveUp(ctx context.Context, n int) error {
	return r.crowded(ctx, "join again", n, func(c *crowd) error {
		err := r.phase("give up", func() error {
			c.leave()
			return c.waiting.Wait()
		})
		if err != nil {
			return err
		}
		if c.gaveUp != n {
			return fmt.Errorf("%d of %d gave up, and nobody could be granted", c.gaveUp, n)
		}
		return r.phase("until only the holder is there", func() error {
			err := until(ctx, "only the holder is there", func() (bool, error) {
				there, err := r.s.Line(ctx, line)
				return there == 1, err
			})
			return errors.Join(err, r.unlock(c.holder))
		})
	})
}
