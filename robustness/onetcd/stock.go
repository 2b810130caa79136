package onetcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// stock is a client of concurrency.Mutex that is used carefully: it does not use a session
// that is done.
type stock struct {
	*network
	session *concurrency.Session
}

func openStock(ctx context.Context, n *network) (*stock, error) {
	// The session outlives ctx, so it gets no context.
	s, err := concurrency.NewSession(n.client, concurrency.WithTTL(int(trial.TTL/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("onetcd: open a session of %s: %w", Stock, errors.Join(err, ctx.Err()))
	}
	return &stock{network: n, session: s}, nil
}

// Kinds implements trial.Client.
func (c *stock) Kinds() []string {
	return []string{kindJoin, kindLook, kindWatch, kindRenewal, kindRelease}
}

// Session implements trial.Client.
func (c *stock) Session() string { return strconv.FormatInt(int64(c.session.Lease()), 16) }

// Acquire implements trial.Client.
func (c *stock) Acquire(ctx context.Context, queue history.Queue, _ trial.Request) (trial.Hold, error) {
	if queue.Recipe != history.Mutex {
		return nil, fmt.Errorf("onetcd: %s is no %s", Stock, queue.Recipe)
	}
	h := &stockHold{s: c.session, m: concurrency.NewMutex(c.session, stockRoot+"/"+queue.Name)}
	// The lease may still exist. Lock would then find the key of the lost hold.
	if h.done() {
		return nil, fmt.Errorf("%w: onetcd: the session is done", trial.ErrUseless)
	}
	err := h.m.Lock(ctx)
	switch {
	case err != nil && h.done():
		return nil, fmt.Errorf("%w: %w", trial.ErrUseless, err)
	case err != nil:
		return nil, err
	}
	c.allowAll() // a holder has no watch, and its renewals stay at their member
	return h, nil
}

// Close implements trial.Client.
func (c *stock) Close() error {
	c.Heal()
	// That the lease has already ended is no failure, and other errors do not matter here.
	_ = c.session.Close()
	return c.close()
}

// stockHold is a hold of concurrency.Mutex.
type stockHold struct {
	s *concurrency.Session
	m *concurrency.Mutex
}

// Token implements trial.Hold: the create revision of the entry, which IsOwner
// compares.
func (h *stockHold) Token() int64 {
	owner := h.m.IsOwner()
	return owner.GetCompare().GetCreateRevision()
}

// Place implements trial.Hold.
func (h *stockHold) Place() int64 { return h.Token() }

// Entry implements trial.Hold.
func (h *stockHold) Entry() string { return h.m.Key() }

// Held implements trial.Hold: what a careful user of the library asks.
func (h *stockHold) Held() bool { return !h.done() }

// Done implements trial.Hold.
func (h *stockHold) Done() <-chan struct{} { return h.s.Done() }

func (h *stockHold) done() bool {
	select {
	case <-h.s.Done():
		return true
	default:
		return false
	}
}

// Release implements trial.Hold. Unlock does not report that a lock was lost.
func (h *stockHold) Release(ctx context.Context) (history.Outcome, error) {
	if h.done() {
		return history.Lost, nil
	}
	if err := h.m.Unlock(ctx); err != nil {
		return history.Pending, err
	}
	return history.Released, nil
}
