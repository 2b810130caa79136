// Package candidate campaigns in the background, for schedulers that ask at each tick
// whether this process leads.
package candidate

import (
	"context"
	"fmt"
	"sync"

	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// Candidate is one candidate of an election, from New to Close.
type Candidate struct {
	e     *election.Election
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has returned

	mu   sync.Mutex
	term *term // the present leadership; nil without
	err  error // why Run has ended by itself
}

// term is one leadership.
type term struct {
	ctx  context.Context // ends with Close, and when the leadership is lost
	h    *session.Hold
	work sync.WaitGroup // what Do has called
}

// New starts to campaign with a value. failed is called, at most once and before Close
// returns, if the campaign ends because waiting cannot help, see election.Run.
func New(e *election.Election, value string, failed func(error)) *Candidate {
	ctx, stop := context.WithCancel(context.Background())
	c := &Candidate{e: e, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		err := e.Run(ctx, value, c.lead)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		failed(err)
	}()
	return c
}

// lead is the work of the leader. It returns when the leadership has ended and all that Do
// has called has returned, so Run resigns after that.
func (c *Candidate) lead(ctx context.Context, h *session.Hold) error {
	t := &term{ctx: ctx, h: h}
	c.set(t)
	<-ctx.Done()
	c.set(nil)
	t.work.Wait()
	return nil
}

func (c *Candidate) set(t *term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = t
}

// Leads returns nil if the candidate leads. Otherwise the error is session.ErrNotLeader, and
// after the end of the campaign also the reason for that. It sends nothing, and reads the
// clock.
func (c *Candidate) Leads() error {
	_, err := c.leads(func(*term) {})
	return err
}

// leads returns the present leadership, after it has called with.
func (c *Candidate) leads(with func(*term)) (*term, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, fmt.Errorf("%w: %w", session.ErrNotLeader, c.err)
	case c.term == nil || c.term.h.Remaining() <= 0:
		return nil, session.ErrNotLeader
	}
	with(c.term)
	return c.term, nil
}

// Do calls fn if the candidate leads. The context of fn ends with ctx, when the leadership is
// lost, and with Close, and it has the values of ctx. If the leadership was lost meanwhile,
// the error is also session.ErrLost, even if fn returned nil.
func (c *Candidate) Do(ctx context.Context, fn func(ctx context.Context, h *session.Hold) error) error {
	t, err := c.leads(func(t *term) { t.work.Add(1) })
	if err != nil {
		return err
	}
	defer t.work.Done()
	return recipe.Within(ctx, t.ctx, t.h, fn)
}

// Close ends the campaign, ends the contexts of all that Do has called, waits until that has
// returned, and resigns. It returns why the campaign had ended before, if it had. Further
// calls do the same.
func (c *Candidate) Close() error {
	c.stop()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
