package job

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// acquire waits for the lock, or tries once, and shows the progress. If a signal comes
// first, it leaves the queue.
func (j *job) acquire(ctx context.Context) (*session.Hold, error) {
	ctx, stop := j.interruptible(ctx)
	if err := j.open(ctx); err != nil {
		cause := stop()
		if cause != nil {
			return nil, cause
		}
		return nil, err
	}
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	stopShowing := j.rep.showWaiting(bounded, j.s)
	h, err := j.request(bounded)
	stopShowing()
	cause := stop()
	if cause != nil {
		if err == nil {
			_ = h.Unlock() // if it fails, the entry ends with the session
		}
		return nil, cause
	}
	return h, err
}

// bounded returns ctx with the timeout of --wait.
func (j *job) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if j.Wait == nil || *j.Wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, *j.Wait)
}

// request sends one request for the lock. With a --wait of 0 it tries once.
func (j *job) request(ctx context.Context) (*session.Hold, error) {
	try := j.Nonblock || j.Wait != nil && *j.Wait == 0
	h, err := j.lock(ctx, try)
	if try && errors.Is(err, session.ErrUnavailable) {
		return nil, exit.Errorf(exit.Unavailable, "%s does not answer: %w", j.target.Address, err)
	}
	return h, err
}

func (j *job) lock(ctx context.Context, try bool) (*session.Hold, error) {
	lock := map[bool]func(context.Context) (*session.Hold, error){}
	switch j.kind() {
	case "leader":
		return election.NewWith(j.s, j.Name, election.Options{Generation: j.Generation}).Campaign(ctx, j.Value)
	case "semaphore":
		m := semaphore.NewWith(j.s, j.Name, j.Permits, semaphore.Options{Slots: true})
		lock[false] = func(ctx context.Context) (*session.Hold, error) { return m.Acquire(ctx, j.Take) }
		lock[true] = func(ctx context.Context) (*session.Hold, error) { return m.TryAcquire(ctx, j.Take) }
	case "read":
		rw := rwlock.New(j.s, j.Name)
		lock[false], lock[true] = rw.RLock, rw.TryRLock
	case "write":
		rw := rwlock.New(j.s, j.Name)
		lock[false], lock[true] = rw.Lock, rw.TryLock
	default:
		m := mutex.New(j.s, j.Name)
		lock[false], lock[true] = m.Lock, m.TryLock
	}
	return lock[try](ctx)
}
