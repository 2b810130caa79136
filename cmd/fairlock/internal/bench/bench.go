// Package bench measures how fast and how fairly a service grants contended locks, and
// checks that the grants do not overlap and are in order.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Options are what to measure.
type Options struct {
	// Locks is the number of locks. Clients is the number of clients, each with a
	// session of its own. Client n acquires lock n modulo Locks.
	Locks, Clients int

	// Hold is how long each client holds its lock at a time. Duration is how long the
	// measurement takes, from when the last session is open.
	Hold, Duration time.Duration
}

// openAtOnce is how many sessions are opened at the same time.
const openAtOnce = 16

// Run measures until the time is over or ctx ends, and returns what was measured until
// then. It returns an error if a session cannot be opened, or the service refuses. It
// leaves no entry in any queue.
func Run(ctx context.Context, open func(context.Context) (*session.Session, error), o Options) (schema.Bench, error) {
	sessions, err := openAll(ctx, open, o.Clients)
	defer closeAll(sessions)
	if err != nil {
		return schema.Bench{}, err
	}
	locks, err := newLocks(o)
	if err != nil {
		return schema.Bench{}, err
	}
	clock := session.Engine(door.Key{}).Of(sessions[0]).Clock()
	timed, cancel := driver.WithTimeout(ctx, clock, o.Duration)
	defer cancel()
	running, fail := context.WithCancelCause(timed)
	defer fail(nil)
	began := clock.Now()
	var clients sync.WaitGroup
	for i, s := range sessions {
		clients.Go(func() { // ends with running
			if err := contend(running, s, locks[i%o.Locks], i/o.Locks, o.Hold); err != nil {
				fail(err) // the first error counts, and none after the end
			}
		})
	}
	clients.Wait()
	cause := context.Cause(running)
	if timed.Err() == nil {
		return schema.Bench{}, cause
	}
	return report(o, locks, clock.Now().Sub(began)), nil
}

// openAll opens n sessions. With an error, it also returns the sessions that are open.
func openAll(ctx context.Context, open func(context.Context) (*session.Session, error), n int) ([]*session.Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []*session.Session
	var openers sync.WaitGroup
	slots := make(chan struct{}, openAtOnce)
	for range n {
		slots <- struct{}{}
		openers.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			s, err := open(ctx)
			if err != nil {
				cancel(err) // the first error counts
				return
			}
			mu.Lock()
			all = append(all, s)
			mu.Unlock()
		})
	}
	openers.Wait()
	return all, context.Cause(ctx)
}

func closeAll(sessions []*session.Session) {
	var closers sync.WaitGroup
	for _, s := range sessions {
		closers.Go(func() { _ = s.Close() }) // otherwise it expires after its TTL
	}
	closers.Wait()
}

// newLocks returns the statistics of new locks. The names are random, so another
// measurement at the same time uses other locks.
func newLocks(o Options) ([]*lockStats, error) {
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("name the locks: %w", err)
	}
	locks := make([]*lockStats, o.Locks)
	for i := range locks {
		locks[i] = newStats(fmt.Sprintf("fairlock-bench/%s/%d", hex.EncodeToString(id), i), (o.Clients-i+o.Locks-1)/o.Locks)
	}
	return locks, nil
}

// contend acquires a lock again and again. It returns when ctx ends, or with an error,
// which may be that of ctx.
func contend(ctx context.Context, s *session.Session, l *lockStats, client int, hold time.Duration) error {
	m, clock := mutex.New(s, l.name), session.Engine(door.Key{}).Of(s).Clock()
	for ctx.Err() == nil {
		asked := clock.Now()
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		l.granted(client, h, asked, clock.Now())
		driver.Sleep(h.Context(), clock, hold) //nolint:contextcheck // a hold is kept to its end
		l.releasing(h, clock.Now())
		l.released(h.Unlock())
	}
	return nil
}
