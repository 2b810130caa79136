package session

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Queue returns the queue of a lock in order, holders first. It includes entries of
// other programs. It is empty if the lock is not held.
func (s *Session) Queue(ctx context.Context, name string) ([]Entry, error) {
	queue, _, err := queueOf(ctx, s, name)
	return queue, err
}

// queueOf is Queue, with the limit if the queue is that of a semaphore.
func queueOf(ctx context.Context, s *Session, name string) ([]Entry, int64, error) {
	e := s.inner()
	if err := e.CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("session: queue: %w", err)
	}
	v, err := e.Read(ctx, driver.ReadRequest{Queue: name, Marks: true, Detail: true, Records: []string{rule.RecordLimit}})
	if err != nil {
		return nil, 0, fmt.Errorf("session: queue %q: %w", name, err)
	}
	limit, _ := rule.LimitOf(name, v.Records[rule.RecordLimit]) // where it cannot be read, no permit is known to be held
	return entriesOf(v.Entries, limit), limit, nil
}

// Names returns, sorted, the names of all locks that begin with prefix and have at
// least one entry.
func (s *Session) Names(ctx context.Context, prefix string) ([]string, error) {
	if !s.opened() {
		return nil, fmt.Errorf("session: names: %w", engine.ErrNotOpened)
	}
	var names []string
	err := s.engine.Do(ctx, func(ctx context.Context, d driver.Session) (err error) {
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
// permission is missing, and the error names the path. ErrRefused: e may be of another
// entry by now, whose program uses its key again; call Queue again. After any other error
// the outcome is unknown; call Evict again: it never deletes another entry.
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
	if err := s.inner().CheckName(e.of.Queue); err != nil {
		return fmt.Errorf("session: evict: %w", err)
	}
	again := false
	err := s.engine.Do(ctx, func(ctx context.Context, d driver.Session) error {
		left, err := d.Leave(ctx, driver.LeaveRequest{Ref: e.of.Ref, Any: true})
		if err == nil && left[0] == driver.WasGone && !again { // else the first attempt may have deleted it
			err = driver.ErrGone
		}
		again = true
		return err //nolint:wrapcheck // the backend's own error
	})
	if err != nil {
		return fmt.Errorf("session: evict from %q: %w", e.of.Queue, err)
	}
	return nil
}
