package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/next/driver"
)

// observer is the service session that a Session reads with while it has no live term.
// It is opened when it is needed first, and closed with the Session.
type observer struct {
	turn chan struct{} // held while the observer is opened, or looked at
	s    driver.Session
	over bool // it is closed, and no other will be opened
}

func newObserver() observer { return observer{turn: make(chan struct{}, 1)} }

// observe returns the observer. If it is the one that the caller has found over,
// another one is opened.
func (s *Session) observe(ctx context.Context, found driver.Session) (driver.Session, error) {
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
	case o.over:
		return nil, ErrClosed
	case o.s != nil && o.s != found:
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

// closeObserver closes the observer. Reads that it serves end with an error.
//
//nolint:contextcheck // Close takes no context, it is bounded by our own clock
func (s *Session) closeObserver() error {
	s.observer.turn <- struct{}{}
	defer func() { <-s.observer.turn }()
	s.observer.over = true
	if s.observer.s == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(context.WithoutCancel(s.ctx), s.clock, closeTimeout)
	defer cancel()
	return s.observer.s.Close(ctx) //nolint:wrapcheck // the backend's own error
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
	var found driver.Session
	for again := true; ; again = false {
		o, err := s.observe(ctx, found)
		if err != nil {
			return err
		}
		if err = f(o); !again || !errors.Is(err, driver.ErrSessionOver) {
			return err
		}
		found = o
	}
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

// limitIn returns the limit that a view has, 0 if there is none.
func limitIn(v driver.View) int64 {
	limit, err := strconv.ParseInt(string(v.Records[recordLimit].Value), 10, 64)
	if err != nil {
		return 0
	}
	return limit
}

// limit returns how many permits the semaphore of that name gives, 0 if it has none
// yet.
func (s *Session) limit(ctx context.Context, name string) (int64, error) {
	if err := s.checkName(name); err != nil {
		return 0, fmt.Errorf("session: limit: %w", err)
	}
	v, err := s.read(ctx, driver.ReadRequest{Queue: name, Nearest: 1, Records: []string{recordLimit}})
	if err != nil {
		return 0, fmt.Errorf("session: limit of %q: %w", name, err)
	}
	return limitIn(v), nil
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

// evict deletes an entry, whatever its owner.
func (s *Session) evict(ctx context.Context, e driver.Entry) error {
	if o := door.OldBackend(s.backend); o != nil {
		return o.Evict(ctx, door.EntryToOld(e)) //nolint:wrapcheck // the backend's own error
	}
	return s.through(ctx, func(d driver.Session) error {
		left, err := d.Leave(ctx, driver.LeaveRequest{Ref: e.Ref, Any: true})
		if err == nil && left[0] == driver.WasGone {
			err = driver.ErrGone
		}
		return err //nolint:wrapcheck // the backend's own error
	})
}
