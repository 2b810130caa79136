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

// queue is the name of the one lock.
const queue = "queue"

// Waiters has n waiters wait for one lock, through a number of sessions. The lock passes
// through the whole queue. The grants must be in the order of the tokens, which is the
// order in which the service received the requests. Then n waiters wait again and all
// give up at once.
func Waiters(ctx context.Context, s Service, n, sessions int) (*Result, error) {
	return scenario(ctx, s, "waiters", n, sessions, func(ctx context.Context, r *run) error {
		if err := r.passThrough(ctx, n); err != nil {
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

// crowd is a holder and the waiters behind it.
type crowd struct {
	r       *run
	holder  *session.Hold
	waiting errgroup.Group
	leave   context.CancelFunc

	mu     sync.Mutex
	tokens []session.Token // in the order of grants
	gaveUp int
}

// gather has n waiters join behind a holder, and returns when all have joined.
func (r *run) gather(ctx context.Context, n int) (c *crowd, err error) {
	c = &crowd{r: r}
	c.holder, err = mutex.New(r.sessions[0], queue).Lock(ctx)
	if err != nil {
		return c, err
	}
	waiting, leave := context.WithCancel(ctx)
	c.leave = leave
	for i := range n {
		c.waiting.Go(func() error { return c.wait(waiting, r.sessions[i%len(r.sessions)], queue) })
		came := i + 1
		if came == n || len(r.sessions) > 1 && came%wave == 0 {
			if err := r.joined(ctx, came+1); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// wave is how many waiters join at once if they use several sessions. One session sends
// no more requests at a time than a server can answer in time. A hundred sessions with a
// hundred requests each overload one etcd member if each request counts a queue of
// thousands: then leases are not renewed in time.
const wave = 500

// joined waits until the queue has n entries.
func (r *run) joined(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d entries are in the queue", n), func() (bool, error) {
		there, err := r.s.Entries(ctx, queue)
		return there == n, err
	})
}

// wait acquires a lock and releases it.
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

// settle waits until no more watches are being created, and records how long that took.
func (r *run) settle(ctx context.Context) error {
	err := r.phase("stand", func() error {
		return steady(ctx, "the watches", func() (int64, error) {
			f, err := r.s.Server(ctx)
			return f.Watches, err
		})
	})
	r.res.Phases[len(r.res.Phases)-1].Took -= quietFor
	return err
}

// crowded has n waiters join behind a holder, in a phase of that name, and calls f when
// no more watches are being created. Then it cancels the remaining waiters.
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
	if err := r.settle(ctx); err != nil {
		return err
	}
	return f(c)
}

func (r *run) passThrough(ctx context.Context, n int) error {
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

// inOrder checks that n waiters were granted the lock, in the order of their tokens.
func (c *crowd) inOrder(n int) error {
	if len(c.tokens) != n {
		return fmt.Errorf("%d of %d waiters were granted the lock", len(c.tokens), n)
	}
	last := c.holder.Token()
	for i, t := range c.tokens {
		if t <= last {
			return fmt.Errorf("grant %d of %d has the token %d, but the one before has %d", i, n, t, last)
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
			return fmt.Errorf("only %d of %d waiters gave up, although none could be granted", c.gaveUp, n)
		}
		return r.phase("until only the holder is there", func() error {
			err := until(ctx, "only the holder is left", func() (bool, error) {
				there, err := r.s.Entries(ctx, queue)
				return there == 1, err
			})
			return errors.Join(err, r.unlock(c.holder))
		})
	})
}
