package designs

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// network is what a client reaches the servers through.
type network interface {
	Cut(d fault.Direction)
	Heal()
	Reset()
	Traffic() tcpproxy.Traffic
	Close() error
}

// client is a client of a design as a trial.Client, and the same for one in another process.
type client struct {
	network
	locker lock.Locker
}

var _ trial.Client = (*client)(nil)

// Acquire implements trial.Client.
func (c *client) Acquire(ctx context.Context, queue history.Queue, _ trial.Request) (trial.Hold, error) {
	h, err := c.locker.Lock(ctx, queue.Name)
	if err != nil {
		return nil, err
	}
	held := &hold{h: h}
	if l, ok := h.(lock.Lossy); ok {
		held.lost = l.Lost()
	}
	if t, ok := h.(lock.Tokened); ok {
		held.token = t.Token()
	}
	return held, nil
}

// Session implements trial.Client: no trial of a design asks for it.
func (*client) Session() string { return "" }

// Member implements trial.Client.
func (*client) Member() int { return -1 }

// Delay implements trial.Client: no trial of a design delays.
func (*client) Delay(time.Duration) {}

// Kinds implements trial.Client.
func (*client) Kinds() []string { return nil }

// Lose implements trial.Client.
func (*client) Lose(string) (hit func() bool) { return func() bool { return false } }

// Close implements trial.Client. The network ends first, as with a program that is killed: a client may wait for
// an answer when it closes.
func (c *client) Close() error {
	c.Heal()
	closed := make(chan error, 1)
	go func() { closed <- c.locker.Close() }() // ends with the network
	err := c.network.Close()
	return errors.Join(err, <-closed)
}

// hold is a hold of a design as a trial.Hold.
type hold struct {
	h     lock.Hold
	lost  <-chan struct{} // nil if the design reports no loss
	token int64
}

// Token implements trial.Hold.
func (h *hold) Token() int64 { return h.token }

// Place implements trial.Hold.
func (*hold) Place() int64 { return 0 }

// Entry implements trial.Hold.
func (*hold) Entry() string { return "" }

// Held implements trial.Hold: what a program knows that uses this design.
func (h *hold) Held() bool {
	select {
	case <-h.lost:
		return false
	default:
	}
	c, ok := h.h.(lock.Checked)
	return !ok || c.Held()
}

// Done implements trial.Hold.
func (h *hold) Done() <-chan struct{} { return h.lost }

// Release implements trial.Hold.
func (h *hold) Release(ctx context.Context) (history.Outcome, error) {
	err := h.h.Unlock(ctx)
	switch {
	case err == nil:
		return history.Released, nil
	case errors.Is(err, lock.ErrLost):
		return history.Lost, nil
	}
	return history.Pending, err
}

// direct is the network of a client in another process: it has no proxies.
type direct struct{}

func (direct) Cut(fault.Direction)       {}
func (direct) Heal()                     {}
func (direct) Reset()                    {}
func (direct) Traffic() tcpproxy.Traffic { return tcpproxy.Traffic{} }
func (direct) Close() error              { return nil }
