// Package inspect reads the lines of a service and finds out what they mean: who
// holds, what has changed between two looks, and who waits for whom.
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
	"github.com/fairlock/fairlock/session"
)

// atOnce is how many lines are read beside each other.
const atOnce = 16

var errPanicked = errors.New("a reader has panicked")

// Read reads the line of a lock. It is empty if nobody holds or waits.
func Read(ctx context.Context, s *session.Session, name string) (schema.Line, error) {
	line, _, err := Both(ctx, s, name)
	return line, err
}

// Both is Read, with the entries as the library has them beside it.
func Both(ctx context.Context, s *session.Session, name string) (schema.Line, []session.Entry, error) {
	core := session.Engine(door.Key{})
	entries, limit, err := core.Queue(ctx, s, name)
	if err != nil {
		return schema.Line{}, nil, err
	}
	return schema.Describe(name, limit, entries, core.Of(s).Clock().Wall()), entries, nil
}

// Asks are of those who ask the holders of a lock to yield, the oldest first. Who may
// not know that sees none.
func Asks(ctx context.Context, s *session.Session, name string) ([]schema.Ask, error) {
	asks, err := s.Asks(ctx, name)
	if err != nil && !errors.Is(err, session.ErrDenied) {
		return nil, err
	}
	var all []schema.Ask
	for _, a := range asks {
		all = append(all, schema.NewAsk(a))
	}
	return all, nil
}

// ReadAll reads all lines whose names begin with prefix, in the order of their
// names. Each is of some moment during the call, and not all of the same. A line
// that has become empty meanwhile is left out.
func ReadAll(ctx context.Context, s *session.Session, prefix string) ([]schema.Line, error) {
	names, err := Names(ctx, s, prefix)
	if err != nil {
		return nil, err
	}
	all := make([]schema.Line, len(names))
	err = Each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = Read(ctx, s, names[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(l schema.Line) bool { return len(l.Entries) == 0 }), nil
}

// Names returns, sorted, the names of all locks that begin with prefix and have an
// entry.
func Names(ctx context.Context, s *session.Session, prefix string) ([]string, error) {
	names, err := s.Names(ctx, prefix)
	// Where lines are not below a root, a key of somebody else's can read like
	// that of an entry of a name that no lock can have.
	return slices.DeleteFunc(names, func(n string) bool { return session.Engine(door.Key{}).Of(s).CheckName(n) != nil }), err
}

// Each calls read with each number from 0 to n-1, several at once, and returns when
// all calls have. The first error ends the others' contexts, and the numbers that are
// left are not read. A panic in read is raised again in the caller, who may have a
// terminal to give back.
func Each(ctx context.Context, n int, read func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var readers sync.WaitGroup
	var panicked atomic.Value
	for range min(atOnce, n) {
		readers.Go(func() { // ends with next
			defer func() {
				if p := recover(); p != nil {
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
	if p := panicked.Load(); p != nil {
		panic(p)
	}
	return context.Cause(ctx)
}

// Every calls f at once and then at every interval, until f or ctx ends it. A
// call that takes long delays the next one.
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
