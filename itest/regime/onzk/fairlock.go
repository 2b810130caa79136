package onzk

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/itest/regime/history"
	"github.com/fairlock/fairlock/itest/regime/trial"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
}

// openOurs opens a Session.
func openOurs(ctx context.Context, n *network) (*ours, error) {
	s, err := zkbackend.Open(ctx, n.servers(), &zkbackend.Options{
		Session: session.Options{TTL: trial.TTL}, Root: root, TickTime: tick, Dial: n.dial,
	})
	if err != nil {
		return nil, err
	}
	return &ours{n, s}, nil
}

// Kinds implements trial.Client.
func (c *ours) Kinds() []string {
	return []string{Create, GetChildren, GetData, Sync, Delete, Ping}
}

// Acquire implements trial.Client.
//
//nolint:contextcheck // a hold has a context of its own
func (c *ours) Acquire(ctx context.Context, line history.Line, ask trial.Ask) (trial.Hold, error) {
	if outer, ok := ask.Within.(*ourHold); ok {
		ctx = within{ctx, outer.Hold.Context()}
	}
	h, err := c.acquire(ctx, line, ask)
	switch {
	case errors.Is(err, session.ErrClosed):
		return nil, fmt.Errorf("%w: %w", trial.ErrUseless, err)
	case err != nil:
		return nil, err
	}
	return &ourHold{h}, nil
}

func (c *ours) acquire(ctx context.Context, line history.Line, ask trial.Ask) (*session.Hold, error) {
	switch line.Recipe {
	case history.Mutex:
		return mutex.New(c.session, line.Name).Lock(ctx)
	case history.Reentrant:
		return mutex.NewReentrant(c.session, line.Name).Lock(ctx)
	case history.ReadWrite:
		if ask.Shared {
			return rwlock.New(c.session, line.Name).RLock(ctx)
		}
		return rwlock.New(c.session, line.Name).Lock(ctx)
	case history.Semaphore:
		return semaphore.New(c.session, line.Name, line.Limit).Acquire(ctx, ask.Weight)
	}
	return nil, fmt.Errorf("onzk: no recipe %q", line.Recipe)
}

// Close implements trial.Client.
func (c *ours) Close() error { return errors.Join(c.session.Close(), c.close()) }

// within ends like one context and has the values of another, a hold's.
type within struct {
	context.Context
	hold context.Context
}

// Value finds what belongs to the ending first.
func (w within) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v
	}
	return w.hold.Value(key)
}

// ourHold is a hold of Fairlock's. A careful user asks for its time.
type ourHold struct{ *session.Hold }

// Token implements trial.Hold.
func (h *ourHold) Token() int64 { return int64(h.Hold.Token()) }

// Place implements trial.Hold: the czxid of the entry is the token, and stays that
// of the writer that a reader was.
func (h *ourHold) Place() int64 { return h.Token() }

// Entry implements trial.Hold.
func (h *ourHold) Entry() string { return h.Refs()[0].Key }

// Held implements trial.Hold.
func (h *ourHold) Held() bool { return h.Valid() > 0 && h.Context().Err() == nil }

// Told implements trial.Hold.
func (h *ourHold) Told() <-chan struct{} { return h.Context().Done() }

// Release implements trial.Hold. Unlock is bounded by its own clock.
func (h *ourHold) Release(context.Context) (history.Outcome, error) {
	return trial.Outcome(h.Unlock())
}
