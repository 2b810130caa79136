// Package worker is one of the processes that contend in the demonstration. In a loop it
// locks, reads the ledger, works, writes the ledger and unlocks. It reports each step with
// the machine's time.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Config describes a worker.
type Config struct {
	Name     string        // shown in the queue
	Lock     string        // the name of the lock
	On       string        // the service: Etcd, ZooKeeper, Postgres or Redis
	Server   string        // the address of the service, or its URL
	Ledger   string        // the URL of the ledger
	TTL      time.Duration // of its session
	Work     time.Duration // how long a job takes, until an Order changes it
	Careless bool          // writes without checking whether it still holds
}

// openTimeout is how long a worker tries to open its session. It is longer than the script
// of a demonstration may take. So on a busy machine the demonstration ends the wait, and
// its error names what it waited for.
const openTimeout = time.Minute

// opener opens a worker's session. It returns when ctx ends.
type opener func(ctx context.Context, cfg Config, opts session.Options) (*session.Session, error)

// Run works until stdin or ctx ends. Then it releases its hold and closes its session. It
// writes events to stdout.
func Run(ctx context.Context, cfg Config, stdin io.Reader, stdout io.Writer) error {
	return run(ctx, cfg, stdin, stdout, open)
}

//nolint:contextcheck // a hold is released although ctx has ended
func run(ctx context.Context, cfg Config, stdin io.Reader, stdout io.Writer, open opener) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, orders := wire.NewWriter(stdout), readOrders(cfg, stdin, cancel)
	openCtx, cancelOpen := context.WithTimeout(ctx, openTimeout)
	s, err := open(openCtx, cfg, Session(cfg, out))
	cancelOpen()
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, session.ErrUnavailable)):
		return nil // it has to leave before it has begun
	case err != nil:
		return fmt.Errorf("worker %s: open a session: %w", cfg.Name, err)
	}
	defer func() {
		e := s.Close()
		if e != nil {
			err = errors.Join(err, fmt.Errorf("worker %s: %w", cfg.Name, e))
		}
	}()
	return work(ctx, s, cfg, orders, out)
}

// Session returns the options that a worker's session must have, so that the worker is
// notified when its request joins.
func Session(cfg Config, out *wire.Writer) session.Options {
	return session.Options{
		TTL: cfg.TTL, Label: cfg.Name, Logger: slog.New(slog.DiscardHandler),
		Hooks: session.Hooks{Joined: func(_ context.Context, e session.Event) {
			report(out, wire.Event{Kind: wire.Joined, Token: int64(e.Token)})
		}},
	}
}

// Work is Run with a session that is open already. It does not close the session.
func Work(ctx context.Context, s *session.Session, cfg Config, stdin io.Reader, out *wire.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return work(ctx, s, cfg, readOrders(cfg, stdin, cancel), out)
}

// readOrders applies the orders from stdin, and calls cancel when stdin has ended.
func readOrders(cfg Config, stdin io.Reader, cancel context.CancelFunc) *pace {
	p := newPace(cfg.Work)
	go func() { // ends with stdin, which ends when the parent closes it or dies
		defer cancel()
		_ = wire.Each(stdin, p.order) // an invalid order ends the worker too
	}()
	return p
}

func work(ctx context.Context, s *session.Session, cfg Config, orders *pace, out *wire.Writer) error {
	w := &worker{
		cfg: cfg, out: out, pace: orders,
		mutex: mutex.New(s, cfg.Lock), ledger: ledger.NewClient(cfg.Ledger, cfg.Name),
	}
	defer w.ledger.Close()
	report(out, wire.Event{Kind: wire.Ready})
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("worker %s: %w", cfg.Name, err)
		}
	}
	return nil
}

// worker is the state of a running worker.
type worker struct {
	cfg    Config
	out    *wire.Writer
	pace   *pace
	mutex  *mutex.Mutex
	ledger *ledger.Client
}

// report sends an event, with the present time if it has none. It ignores an error: if
// the parent does not read any more, stdin has ended as well.
func report(out *wire.Writer, e wire.Event) {
	if e.At == 0 {
		e.At = stamp.Now()
	}
	_ = out.Write(e)
}

// turn acquires and releases the lock once.
//
//nolint:contextcheck // a hold has a context of its own, and is released although ctx has ended
func (w *worker) turn(ctx context.Context) error {
	h, err := w.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	token := int64(h.Token())
	at, work := stamp.Now(), w.pace.next()
	until := deadline{at: at}
	report(w.out, wire.Event{Kind: wire.Granted, At: at, Token: token, Work: work})
	stop := context.AfterFunc(h.Context(), func() {
		cause := context.Cause(h.Context())
		if errors.Is(cause, session.ErrLost) {
			report(w.out, wire.Event{Kind: wire.Lost, At: until.read(stamp.Now(), h.Remaining()), Token: token, Err: cause.Error()})
		}
	})
	err = w.job(ctx, h, work, &until)
	stop()

	at = until.read(stamp.Now(), h.Remaining()) // before Unlock: the hold's context ends with the call
	e := wire.Event{Kind: wire.Released, At: at, Token: token}
	uerr := h.Unlock()
	switch {
	case uerr == nil:
	case errors.Is(uerr, session.ErrLost):
		e.Kind, e.Err = wire.Lost, uerr.Error()
	default:
		e.Err = uerr.Error()
	}
	report(w.out, e)
	if errors.Is(err, ledger.ErrStale) || errors.Is(err, session.ErrLost) {
		return nil // the hold was lost: acquire the lock again
	}
	return err
}

// job reads the balance, works, and writes the next balance. It stops when ctx ends, and,
// unless the worker is careless, when the hold is lost.
//
//nolint:contextcheck // a hold has a context of its own
func (w *worker) job(ctx context.Context, h *session.Hold, work time.Duration, until *deadline) error {
	token := int64(h.Token())
	balance, err := w.ledger.Read(ctx, token)
	if err != nil {
		return err
	}
	report(w.out, wire.Event{Kind: wire.Read, Token: token})
	if !w.sleep(ctx, h, work, until) {
		return context.Cause(ctx)
	}
	valid := h.Remaining()
	if valid == 0 || h.Context().Err() != nil {
		why := context.Cause(h.Context())
		if !w.cfg.Careless {
			return fmt.Errorf("job abandoned: %w: %w", session.ErrLost, why)
		}
		e := wire.Event{Kind: wire.Late, Token: token, Valid: valid}
		if why != nil {
			e.Err = why.Error()
		}
		report(w.out, e)
	}
	return w.ledger.Write(ctx, token, balance+1)
}

// sleep works for d, or until an order ends the job. It returns false if ctx has ended.
func (w *worker) sleep(ctx context.Context, h *session.Hold, d time.Duration, until *deadline) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	var lost <-chan struct{} // nil for a careless worker, which does not check
	if !w.cfg.Careless {
		lost = h.Context().Done()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			until.read(stamp.Now(), h.Remaining())
			continue
		case <-t.C:
		case <-w.pace.end:
		case <-lost:
		case <-ctx.Done():
			return false
		}
		return true
	}
}
