package fairleaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// Config is what Run takes. The durations of leaderelection.LeaderElectionConfig have no counterpart:
// the TTL of the session is the only one.
type Config struct {
	// Identity is what other candidates learn of this one as the leader. It is required.
	Identity string

	// Callbacks are those of client-go. OnNewLeader may be nil.
	Callbacks leaderelection.LeaderCallbacks

	// ReleaseOnCancel lets the next candidate lead as soon as ctx has ended and the callbacks have
	// returned. Without it, the next one leads when the session is closed or has expired: set it
	// unless OnStartedLeading leaves work behind that goes on after its return.
	ReleaseOnCancel bool

	// WatchDog gets the health of the leader, if it is not nil.
	WatchDog *HealthzAdaptor
}

// Run campaigns, and leads once, until ctx ends or the leadership is lost. It calls the callbacks as
// client-go's LeaderElector.Run does, in a stricter order:
//
//   - OnStartedLeading is called when the candidate leads. Its context ends with ctx and when the
//     leadership is lost, before another candidate leads, and it has the hold: session.TokenFrom
//     returns the token. If OnStartedLeading returns, this candidate leads on all the same.
//   - OnStoppedLeading is called once, also if the candidate never led. After the end of ctx, it is
//     called when OnStartedLeading has returned, and the next candidate leads after both have returned.
//     After a loss it is called at once, also while OnStartedLeading runs, because the next leader
//     does not wait; it may exit the process.
//   - OnNewLeader is called with each new leader, also with this candidate. Its calls come one after
//     the other, in the order of the leaders, and Run returns after the last one.
//
// Run returns when all callbacks have returned: nil if ctx has ended, session.ErrLost if the
// leadership was lost before that, and otherwise the error of a campaign where waiting cannot help,
// see election.Run. To campaign again after a loss, call Run again.
func Run(ctx context.Context, e *election.Election, c Config) (err error) {
	if c.Identity == "" || c.Callbacks.OnStartedLeading == nil || c.Callbacks.OnStoppedLeading == nil {
		return fmt.Errorf("fairleaderelection: %w: Identity, OnStartedLeading and OnStoppedLeading are required", session.ErrInvalidOptions)
	}
	if c.WatchDog == nil {
		c.WatchDog = &HealthzAdaptor{}
	}
	var observing sync.WaitGroup
	observed, end := context.WithCancel(ctx)
	var unobserved error
	if c.Callbacks.OnNewLeader != nil {
		observing.Go(func() { unobserved = c.observe(observed, e) })
	}
	defer func() {
		end()
		observing.Wait()
		err = errors.Join(err, unobserved)
	}()
	stopped := sync.OnceFunc(c.Callbacks.OnStoppedLeading)
	h, err := e.Campaign(ctx, c.Identity)
	if err != nil {
		stopped()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return c.lead(ctx, h, stopped)
}

// lead calls the callbacks of the leader, and resigns.
func (c *Config) lead(ctx context.Context, h *session.Hold, stopped func()) (err error) {
	keep := false
	defer func() { // also after a panic
		c.WatchDog.h.Store(nil)
		if keep {
			return
		}
		e := h.Unlock()
		if err == nil && e != nil && !errors.Is(e, session.ErrReleasePending) { // the session repeats it
			err = e
		}
	}()
	c.WatchDog.h.Store(h)
	err = recipe.Within(ctx, h.Context(), h, func(inner context.Context, h *session.Hold) error { //nolint:contextcheck // it ends with both
		stop := context.AfterFunc(h.Context(), stopped) //nolint:contextcheck // ctx may have ended before
		defer stop()
		c.Callbacks.OnStartedLeading(inner)
		<-inner.Done()
		return nil
	})
	stopped()
	keep = err == nil && !c.ReleaseOnCancel
	return err
}

// observe calls OnNewLeader.
func (c *Config) observe(ctx context.Context, e *election.Election) error {
	last := ""
	for l, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		if l.Vacant() || l.Value == last {
			continue
		}
		last = l.Value
		c.Callbacks.OnNewLeader(last)
	}
	return nil
}
