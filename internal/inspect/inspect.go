// Package inspect reads the queues of a service and finds the changes between two
// readings.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// atOnce is how many queues are read at the same time.
const atOnce = 16

// readTimeout bounds each read. It is as long as a service with a quorum can be without a
// leader.
const readTimeout = 10 * time.Second

// within calls f with a context that ends after readTimeout.
func within(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := f(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the service does not answer within %s: %w", readTimeout, err)
	}
	return err
}

var errPanicked = errors.New("a reader has panicked")

// Read reads the queue of a lock. Without an answer it returns an error after 10 s, as do
// the other reads of this package.
func Read(ctx context.Context, s *session.Session, name string) (schema.Queue, error) {
	q, _, err := Both(ctx, s, name)
	return q, err
}

// Both is Read, and also returns the entries as the session returns them.
func Both(ctx context.Context, s *session.Session, name string) (schema.Queue, []session.Entry, error) {
	core := session.Engine(door.Key{})
	var entries []session.Entry
	var limit int64
	err := within(ctx, func(ctx context.Context) (err error) {
		entries, limit, err = core.Queue(ctx, s, name)
		return err
	})
	if err != nil {
		return schema.Queue{}, nil, err
	}
	return schema.Describe(name, limit, entries, core.Of(s).Clock().Wall()), entries, nil
}

// Asks returns the yield requests to the holders of a lock, the oldest first. It
// returns none if the session may not read them.
func Asks(ctx context.Context, s *session.Session, name string) ([]schema.Ask, error) {
	var asks []yield.Request
	err := within(ctx, func(ctx context.Context) (err error) {
		asks, err = yield.List(ctx, s, name)
		return err
	})
	if err != nil && !errors.Is(err, session.ErrDenied) {
		return nil, err
	}
	var all []schema.Ask
	for _, a := range asks {
		all = append(all, schema.NewAsk(a))
	}
	return all, nil
}

// Unreadable is the error of reading many queues if the service denies or refuses the read
// of some of them.
type Unreadable struct {
	N     int   // how many
	First error // of the first one by name
}

// Error implements error.
func (u *Unreadable) Error() string {
	if u.N == 1 {
		return u.First.Error()
	}
	return fmt.Sprintf("%d queues cannot be read; the first: %s", u.N, u.First)
}

// Unwrap returns First.
func (u *Unreadable) Unwrap() error { return u.First }

// OfQueue reports whether an error of a read concerns only its queue, so that reading others
// may succeed.
func OfQueue(err error) bool {
	return errors.Is(err, session.ErrDenied) || errors.Is(err, session.ErrRefused)
}

// ReadAll reads all queues whose names begin with prefix, in the order of their
// names. Each queue is as it was at some moment during the call; the moments
// differ. A queue that has become empty meanwhile is left out. With an error that
// is an *Unreadable, ReadAll returns the queues that can be read; with any other, none.
func ReadAll(ctx context.Context, s *session.Session, prefix string) ([]schema.Queue, error) {
	names, err := Names(ctx, s, prefix)
	if err != nil {
		return nil, err
	}
	all, failed := make([]schema.Queue, len(names)), make([]error, len(names))
	err = Each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = Read(ctx, s, names[i])
		if OfQueue(err) {
			failed[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(q schema.Queue) bool { return len(q.Entries) == 0 })
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		return all, &Unreadable{N: len(failed), First: failed[0]}
	}
	return all, nil
}

// Names returns, sorted, the names of all locks that begin with prefix and have an
// entry.
func Names(ctx context.Context, s *session.Session, prefix string) ([]string, error) {
	var names []string
	err := within(ctx, func(ctx context.Context) (err error) {
		names, err = s.Names(ctx, prefix)
		return err
	})
	// Where queues are not below a root, another program's key can look like the
	// key of an entry, of a name that no lock can have.
	return slices.DeleteFunc(names, func(n string) bool { return session.Engine(door.Key{}).Of(s).CheckName(n) != nil }), err
}

// Each calls read with each number from 0 to n-1, several at once, and returns when
// all calls have returned. The first error cancels the contexts of the other calls,
// and no further calls are made. A panic in read is raised again in the caller,
// which may have a terminal to restore.
func Each(ctx context.Context, n int, read func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var readers sync.WaitGroup
	var panicked atomic.Value
	for range min(atOnce, n) {
		readers.Go(func() { // ends with next
			defer func() {
				p := recover()
				if p != nil {
					panicked.Store(fmt.Sprintf("%v\n\n%s", p, debug.Stack()))
					cancel(errPanicked)
				}
			}()
			for i := range next {
				if err := read(ctx, i); err != nil {
					cancel(err) // the first one counts
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	readers.Wait()
	p := panicked.Load()
	if p != nil {
		panic(p)
	}
	return context.Cause(ctx)
}

// Every calls f immediately and then at every interval, until f returns an error or
// ctx ends. A call that takes longer than the interval delays the next one.
func Every(ctx context.Context, interval time.Duration, f func() error) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		if err := f(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
