package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// A queue is a line to be formed and run down.
type queue struct {
	name    string
	waiters int
	behind  int           // so many entries without an owner stand behind the waiters
	settle  time.Duration // how long nothing must happen before the first release
	hold    time.Duration // how long each has the lock
	bound   int           // after so many hand-offs the rest goes home; 0 is never
}

// queueResult is what one line told.
type queueResult struct {
	joins    time.Duration // until all had joined
	elapsed  time.Duration // from the first release to the last grant that counts
	handOffs []handOff
	moved    stand.Counts // by all, in that time
	sent     stand.Counts // by all, from the first join to the last release
}

// run has contender 0 of a team lock and q.waiters more line up, in whatever
// order, and lets the lock go down the line. After an error the team is of no
// more use.
func (q queue) run(ctx context.Context, s stand.Stand, t *stand.Team) (queueResult, error) {
	var r queueResult
	before := t.Sent()
	unlock, err := t.Contenders[0].Lock(ctx, q.name)
	if err != nil {
		return r, err
	}
	b := &baton{t: t, want: q.waiters}
	if q.bound > 0 {
		b.want = min(q.bound, q.waiters)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	enough := make(chan struct{})
	start := time.Now()
	for i := 1; i <= q.waiters; i++ {
		g.Go(func() error {
			err := q.take(waiting, b, i, enough)
			if err != nil {
				t.Abandon(cancel)
			}
			return err
		})
	}
	if err = q.form(waiting, s, t, start, &r); err == nil {
		b.release(0)
		err = unlock()
	}
	if err != nil {
		t.Abandon(cancel)
		return r, errors.Join(err, g.Wait())
	}
	select {
	case <-enough:
		if b.want < q.waiters {
			err = t.Disperse(cancel)
		}
	case <-waiting.Done(): // somebody failed, or all is to end
		t.Abandon(cancel)
	}
	if e := g.Wait(); e != nil {
		return r, e
	}
	r.elapsed, r.handOffs, r.moved = b.last.Sub(b.first), b.handOffs, b.moved
	r.sent = t.Sent().Since(before)
	return r, err
}

// form waits until the line stands.
func (q queue) form(ctx context.Context, s stand.Stand, t *stand.Team, start time.Time, r *queueResult) error {
	line := t.Line(q.name)
	if err := joined(ctx, s, line, q.waiters+1); err != nil {
		return err
	}
	r.joins = time.Since(start)
	if err := s.Fill(ctx, line, q.behind); err != nil {
		return err
	}
	return t.Quiet(ctx, q.settle)
}

// joined waits until n entries are in a line.
func joined(ctx context.Context, s stand.Stand, line string, n int) error {
	pause := time.Millisecond
	if n > 1000 {
		pause = 20 * time.Millisecond // counting them all may cost the server as well
	}
	for {
		there, err := s.Length(ctx, line)
		if err != nil || there >= n {
			return err
		}
		if err := stand.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d of %d have joined: %w", there, n, err)
		}
	}
}

// take is one waiter: it locks, holds and gives back. enough is closed at the
// last hand-off that counts; what fails after that does not matter.
func (q queue) take(ctx context.Context, b *baton, i int, enough chan struct{}) error {
	unlock, err := b.t.Contenders[i].Lock(ctx, q.name)
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
		if err := stand.Sleep(ctx, q.hold); err != nil {
			return errors.Join(err, unlock())
		}
	}
	b.release(i)
	if err := unlock(); err != nil && !b.stopped() {
		return err
	}
	return nil
}
