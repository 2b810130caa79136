package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Queue returns the queue of a lock in order, holders first. It includes entries of
// other programs. It is empty if the lock is not held.
func (s *Session) Queue(ctx context.Context, name string) ([]Entry, error) {
	queue, _, err := queueOf(ctx, s, name)
	return queue, err
}

// queueOf implements door.Engine's Queue.
func queueOf(ctx context.Context, s *Session, name string) ([]Entry, int64, error) {
	if err := (*inner)(s).CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("session: queue: %w", err)
	}
	v, err := s.read(ctx, driver.ReadRequest{Queue: name, Marks: true, Detail: true, Records: []string{recordLimit}})
	if err != nil {
		return nil, 0, fmt.Errorf("session: queue %q: %w", name, err)
	}
	limit, _ := limitIn(name, v) // where it cannot be read, no permit is known to be held
	return entriesOf(v.Entries, limit), limit, nil
}

// Names returns, sorted, the names of all locks that begin with prefix and have at
// least one entry.
func (s *Session) Names(ctx context.Context, prefix string) ([]string, error) {
	if !s.opened() {
		return nil, fmt.Errorf("session: names: %w: the Session is nil or was never opened", ErrClosed)
	}
	var names []string
	err := s.through(ctx, func(d driver.Session) (err error) {
		names, err = d.Names(ctx, prefix)
		return err //nolint:wrapcheck // the backend's own error
	})
	if err != nil {
		return nil, fmt.Errorf("session: names with prefix %q: %w", prefix, err)
	}
	return names, nil
}

// Evict deletes an entry that Queue has returned, whatever its owner: a holder's, a
// waiter's, or another program's. An operator calls it for an entry that its owner does
// not release. ErrGone: the entry was gone before, or e is not from Queue. ErrDenied: a
// permission is missing, and the error names the path. After any other error the
// outcome is unknown; call Evict again: it never deletes another entry.
//
// Evict breaks the lock. The next waiter holds at once, while the evicted holder is
// notified by the next event (ErrLost, with ReasonDeleted, and ReasonEvicted from
// Unlock). Until then two clients believe that they hold the lock, and only a resource
// that checks tokens is safe. So send a yield request first, see Session.Ask. An
// evicted waiter joins the queue again at its end. An evicted program is free to ask
// for the lock again.
func (s *Session) Evict(ctx context.Context, e Entry) error {
	if s.opened() && e.of.Zero() {
		return fmt.Errorf("session: evict: %w: pass an entry that Queue has returned", ErrGone)
	}
	if err := (*inner)(s).CheckName(e.of.Queue); err != nil {
		return fmt.Errorf("session: evict: %w", err)
	}
	err := s.through(ctx, func(d driver.Session) error {
		left, err := d.Leave(ctx, driver.LeaveRequest{Ref: e.of.Ref, Any: true})
		if err == nil && left[0] == driver.WasGone {
			err = driver.ErrGone
		}
		return err //nolint:wrapcheck // the backend's own error
	})
	if err != nil {
		return fmt.Errorf("session: evict from %q: %w", e.of.Queue, err)
	}
	return nil
}

// read reads a queue as it is now.
func (s *Session) read(ctx context.Context, req driver.ReadRequest) (v driver.View, err error) {
	req.Fresh = true
	err = s.through(ctx, func(d driver.Session) (err error) {
		v, err = d.Read(ctx, req)
		return err //nolint:wrapcheck // the backend's own error
	})
	return v, err
}

// recordLimit is the record that has the limit of a semaphore, in decimal digits.
const recordLimit = "limit"

// limitIn returns the limit that a view of a queue has, 0 if there is none.
func limitIn(name string, v driver.View) (int64, error) {
	r, ok := v.Records[recordLimit]
	if !ok {
		return 0, nil
	}
	return rule.ParseLimit(name, r.Value) //nolint:wrapcheck // it names the queue
}

// through calls f with a service session that can read: that of the live term, or the
// observer. So nothing here needs a live term, and tools work also where the service
// takes no new sessions.
func (s *Session) through(ctx context.Context, f func(driver.Session) error) error {
	s.mu.Lock()
	t := s.cur
	s.mu.Unlock()
	if t != nil && t.Alive() {
		if err := f(t.drv); !errors.Is(err, driver.ErrSessionOver) {
			return err
		}
	}
	o, err := s.observe(ctx, nil)
	if err == nil {
		err = f(o)
	}
	if o != nil && errors.Is(err, driver.ErrSessionOver) { // another one may do
		if o, err = s.observe(ctx, o); err == nil {
			err = f(o)
		}
	}
	return err
}

// observer is the service session that a Session reads with while it has no live term. It
// is opened when it is needed first, and closed with the Session.
type observer struct {
	turn chan struct{} // is full while s is read, opened or closed
	s    driver.Session
}

// observe returns the observer. If the caller has found that one over, observe opens
// another one.
func (s *Session) observe(ctx context.Context, over driver.Session) (driver.Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })() //nolint:contextcheck // it ends with both
	o := &s.observer
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case s.ctx.Err() != nil:
		return nil, ErrClosed
	case o.s != nil && o.s != over:
		return o.s, nil
	case o.s != nil:
		o.s.Abandon()
		o.s = nil
	}
	opened, err := s.backend.Open(ctx, driver.Config{Observer: true, Margin: s.margin, Logger: s.opts.Logger})
	if err != nil {
		return nil, fmt.Errorf("open a session to read with: %w", driver.JoinErrors(context.Cause(ctx), err))
	}
	o.s = opened
	return opened, nil
}

// closeObserver closes the observer, after the end of s.ctx. Reads that it serves end with
// an error.
//
//nolint:contextcheck // Close takes no context, it is bounded by our own clock
func (s *Session) closeObserver() error {
	s.observer.turn <- struct{}{}
	defer func() { <-s.observer.turn }()
	if s.observer.s == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(context.WithoutCancel(s.ctx), s.clock, closeTimeout)
	defer cancel()
	return s.observer.s.Close(ctx) //nolint:wrapcheck // the backend's own error
}
