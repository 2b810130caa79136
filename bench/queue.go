package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// A queue is a line to be formed and run down.
type queue struct {
	name    string
	waiters int
	behind  int           // so many plain keys stand behind the waiters
	settle  time.Duration // how long nothing must happen before the first release
	hold    time.Duration // how long each has the lock
	bound   int           // after so many hand-offs the rest goes home; 0 is never
}

// queueResult is what one line told.
type queueResult struct {
	joins    time.Duration // until all had joined
	elapsed  time.Duration // from the first release to the last grant
	handOffs []handOff
	sent     counts // by all, from the first join to the last release
}

// run has contender 0 of a team lock and q.waiters more line up, in whatever
// order, and lets the lock go down the line.
func (q queue) run(ctx context.Context, s *stand, t *team) (queueResult, error) {
	var r queueResult
	sent := total(t.clients)
	unlock, err := t.contenders[0].lock(ctx, q.name)
	if err != nil {
		return r, err
	}
	b := &baton{t: t, bound: q.bound}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	enough := make(chan struct{})
	start := time.Now()
	for i := 1; i <= q.waiters; i++ {
		g.Go(func() error { return q.take(waiting, b, i, enough) })
	}
	if err = q.form(waiting, s, t, start, &r); err != nil {
		cancel()
		return r, errors.Join(unlock(), g.Wait(), err)
	}
	b.release(0)
	if err := unlock(); err != nil {
		cancel()
		return r, errors.Join(err, g.Wait())
	}
	if q.bound > 0 && q.bound < q.waiters {
		select {
		case <-enough:
			err = t.disperse(cancel)
		case <-waiting.Done(): // somebody failed
		}
	}
	if e := g.Wait(); e != nil {
		return r, e
	}
	r.elapsed, r.handOffs = b.last.Sub(b.first), b.handOffs
	r.sent = total(t.clients).since(sent)
	return r, err
}

// form waits until the line stands.
func (q queue) form(ctx context.Context, s *stand, t *team, start time.Time, r *queueResult) error {
	prefix := t.prefix(q.name)
	if err := s.joined(ctx, prefix, q.waiters+1); err != nil {
		return err
	}
	r.joins = time.Since(start)
	if err := s.put(ctx, prefix, q.behind); err != nil {
		return err
	}
	return s.quiet(ctx, t.clients, q.settle)
}

// take is one waiter: it locks, holds and gives back. enough is closed at the
// last hand-off that counts; what fails after that does not matter.
func (q queue) take(ctx context.Context, b *baton, i int, enough chan struct{}) error {
	unlock, err := b.t.contenders[i].lock(ctx, q.name)
	at := time.Now()
	if err != nil {
		if b.stopped() {
			return nil
		}
		return err
	}
	if b.granted(i, at) {
		close(enough)
	}
	if q.hold > 0 {
		if err := sleep(ctx, q.hold); err != nil {
			return errors.Join(err, unlock())
		}
	}
	b.release(i)
	if err := unlock(); err != nil && !b.stopped() {
		return err
	}
	return nil
}
