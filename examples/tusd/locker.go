package main

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// Locker is a handler.Locker for several processes with tusd that share a data store.
//
// A request for an upload that another request is writing sends a yield request. tusd then ends
// the body of the other one, stores what has come, and unlocks. That happens also when the lock is
// lost. But the data stores of tusd check no token: what a lost lock has begun to store can come
// after a write of the next holder. And tusd 2.9 does not notice an interruption between Lock and
// the first read of the body: such a request goes on until its client has sent all, or until
// handler.Config.NetworkTimeout.
type Locker struct{ Session *session.Session }

// NewLock implements handler.Locker.
func (l Locker) NewLock(id string) (handler.Lock, error) {
	return &lock{s: l.Session, m: mutex.New(l.Session, "uploads/"+id)}, nil
}

// lock is the lock of one HTTP request.
type lock struct {
	s *session.Session
	m *mutex.Mutex

	h     *session.Hold
	ended chan struct{} // closed when requestUnlock is not called any more
}

// Lock implements handler.Lock. Requests get the lock in the order of their calls.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	h, err := l.m.TryLock(ctx)
	reason := "another request for the upload, " + rand.Text()
	if errors.Is(err, session.ErrNotAcquired) && ctx.Err() == nil {
		h, err = l.request(ctx, reason)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return handler.ErrLockTimeout
	case err != nil:
		return err
	}
	l.h, l.ended = h, make(chan struct{})
	go func() { //nolint:contextcheck // it ends with the hold
		defer close(l.ended)
		for {
			r, err := yield.Next(h.Context(), h)
			if err == nil && r.Reason == reason {
				continue // ours, which is being withdrawn
			}
			if err == nil || errors.Is(err, session.ErrLost) {
				requestUnlock()
			}
			return
		}
	}()
	return nil
}

// request waits for the lock, and requests that its holders yield, one after the other.
func (l *lock) request(ctx context.Context, reason string) (*session.Hold, error) {
	withdraw, err := yield.Send(ctx, l.s, l.m.Name(), reason)
	if err != nil {
		return nil, err
	}
	defer func() { _ = withdraw() }() // if it fails, the session withdraws it
	return l.m.Lock(ctx)
}

// Unlock implements handler.Lock. A lock that was lost is an error.
func (l *lock) Unlock() error {
	err := l.h.Unlock()
	<-l.ended
	if errors.Is(err, session.ErrReleasePending) {
		return nil
	}
	return err
}
