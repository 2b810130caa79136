package onetcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/itest/regime/history"
	"github.com/fairlock/fairlock/itest/regime/trial"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
	id      atomic.Value // string: of the lease
}

func openOurs(ctx context.Context, n *network) (*ours, error) {
	c := &ours{network: n}
	c.id.Store("")
	var err error
	c.session, err = etcdbackend.Open(ctx, n.client, &etcdbackend.Options{
		Root: root,
		Session: session.Options{
			TTL:   trial.TTL,
			Hooks: session.Hooks{SessionOpened: func(e session.Event) { c.id.Store(e.Session) }},
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Kinds implements trial.Client.
func (c *ours) Kinds() []string {
	return []string{kindJoin, kindLook, kindWatch, kindResolve, kindRenewal, kindRelease}
}

// Session implements trial.Client.
func (c *ours) Session() string { return c.id.Load().(string) }

// Acquire implements trial.Client.
func (c *ours) Acquire(ctx context.Context, line history.Line, ask trial.Ask) (trial.Hold, error) {
	h, err := c.acquire(ctx, line, ask)
	switch {
	case errors.Is(err, session.ErrClosed):
		return nil, fmt.Errorf("%w: %w", trial.ErrUseless, err)
	case err != nil:
		return nil, err
	case h == nil: // with a defect that was planted
		return nil, errors.New("onetcd: neither a hold nor an error")
	}
	return ourHold{h}, nil
}

//nolint:contextcheck // being inside is told by the context of the hold; nothing is waited for
func (c *ours) acquire(ctx context.Context, line history.Line, ask trial.Ask) (*session.Hold, error) {
	if outer, ok := ask.Within.(ourHold); ok {
		ctx = outer.h.Context()
	}
	switch line.Recipe {
	case history.Reentrant:
		return mutex.NewReentrant(c.session, line.Name).Lock(ctx)
	case history.ReadWrite:
		rw := rwlock.New(c.session, line.Name)
		if ask.Shared {
			return rw.RLock(ctx)
		}
		return rw.Lock(ctx)
	case history.Semaphore:
		return semaphore.New(c.session, line.Name, line.Limit).Acquire(ctx, ask.Weight)
	case history.Mutex:
		return mutex.New(c.session, line.Name).Lock(ctx)
	}
	return nil, fmt.Errorf("onetcd: there is no recipe %q", line.Recipe)
}

// Close implements trial.Client.
func (c *ours) Close() error { return errors.Join(c.session.Close(), c.close()) }

// ourHold is a hold of Fairlock's.
type ourHold struct{ h *session.Hold }

func (h ourHold) Token() int64          { return int64(h.h.Token()) }
func (h ourHold) Place() int64          { return h.h.Refs()[0].Place }
func (h ourHold) Entry() string         { return h.h.Refs()[0].Key }
func (h ourHold) Told() <-chan struct{} { return h.h.Context().Done() }

// Held implements trial.Hold. That the context is live is not asked beside: if one
// of the two said that it is over and the other did not, that would be hidden.
func (h ourHold) Held() bool { return h.h.Valid() > 0 }

// Release implements trial.Hold. Unlock is bounded by itself.
func (h ourHold) Release(context.Context) (history.Outcome, error) {
	return trial.Outcome(h.h.Unlock())
}
