// Package bench measures how a service gives locks to many who want them all the
// time, and checks that it does so in order.
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

// Options say what to measure.
type Options struct {
	// Locks is how many there are, and Clients how many want one of them, each
	// with a session of its own. Client n wants lock n modulo Locks.
	Locks, Clients int

	// Hold is how long each keeps the lock, and Duration how long all of it takes,
	// from when the last session is open.
	Hold, Duration time.Duration
}

// openAtOnce is how many sessions are opened beside each other.
const openAtOnce = 16

// Run measures until the time is over or ctx ends; the result is of what was
// measured until then. It returns an error if a session cannot be opened, or the
// service refuses. Nothing of it is left in any line.
func Run(ctx context.Context, open func(context.Context) (*session.Session, error), o Options) (schema.Bench, error) {
	sessions, err := openAll(ctx, open, o.Clients)
	defer closeAll(sessions)
	if err != nil {
		return schema.Bench{}, err
	}
	lines, err := newLines(o)
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
			if err := contend(running, s, lines[i%o.Locks], i/o.Locks, o.Hold); err != nil {
				fail(err) // the first one counts, and none after the end
			}
		})
	}
	clients.Wait()
	if cause := context.Cause(running); timed.Err() == nil {
		return schema.Bench{}, cause
	}
	return report(o, lines, clock.Now().Sub(began)), nil
}

// openAll opens n sessions. It returns those that it could open also with an error.
func openAll(ctx context.Context, open func(context.Context) (*session.Session, error), n int) ([]*session.Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []*session.Session
	var openers sync.WaitGroup
	places := make(chan struct{}, openAtOnce)
	for range n {
		places <- struct{}{}
		openers.Go(func() {
			defer func() { <-places }()
			if ctx.Err() != nil {
				return
			}
			s, err := open(ctx)
			if err != nil {
				cancel(err) // the first one counts
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
		closers.Go(func() { _ = s.Close() }) // what is left of it goes with its TTL
	}
	closers.Wait()
}

// newLines makes the locks. Their names are nobody else's: who measures at the same
// time measures something of his own.
func newLines(o Options) ([]*line, error) {
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("name the locks: %w", err)
	}
	lines := make([]*line, o.Locks)
	for i := range lines {
		lines[i] = newLine(fmt.Sprintf("fairlock-bench/%s/%d", hex.EncodeToString(id), i), (o.Clients-i+o.Locks-1)/o.Locks)
	}
	return lines, nil
}

// contend takes a lock again and again until ctx ends, which may be the error.
func contend(ctx context.Context, s *session.Session, l *line, client int, hold time.Duration) error {
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
