package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// A Line is a job that fills a queue and passes the lock from waiter to waiter.
type Line struct {
	Waiters int
	Behind  int           // so many entries without a waiter are behind the waiters
	Settle  time.Duration // how long nothing must happen before the first release
	Hold    time.Duration // how long each waiter holds the lock
	Bound   int           // after so many hand-offs the other waiters are stopped; 0 is never
}

// LineResult is the result of one Line.
type LineResult struct {
	Joins    time.Duration // until all waiters had joined
	Elapsed  time.Duration // from the first release to the last grant that counts
	HandOffs []HandOff
	Moved    stand.Counts // by all clients, in that time
	Sent     stand.Counts // by all clients, from the first join to the last release
}

// run lets contender 0 acquire and q.Waiters more join, in any order. Then the lock goes from
// one to the next. Remaining entries are deleted at the end.
func (q Line) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (LineResult, error) {
	r, err := q.down(ctx, s, t, name)
	if err == nil {
		err = s.Clear(ctx, t.QueueOf(name))
	}
	return r, err
}

func (q Line) down(ctx context.Context, s stand.Stand, t *stand.Team, name string) (LineResult, error) {
	var r LineResult
	before := t.Sent()
	unlock, err := t.Contenders[0].Lock(ctx, name)
	if err != nil {
		return r, err
	}
	rec := &recorder{t: t, name: name, want: q.Waiters}
	if q.Bound > 0 {
		rec.want = min(q.Bound, q.Waiters)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	done := make(chan struct{})
	rec.began = time.Now()
	for i := 1; i <= q.Waiters; i++ {
		g.Go(func() error {
			err := q.turn(waiting, rec, i, done)
			if err != nil {
				t.Abort(cancel)
			}
			return err
		})
	}
	err = q.form(waiting, s, t, rec, &r)
	if err == nil {
		rec.release(0)
		err = unlock()
	}
	if err != nil {
		t.Abort(cancel)
		return r, errors.Join(err, g.Wait())
	}
	select {
	case <-done:
		if rec.want < q.Waiters {
			err = t.StopWaiters(cancel)
		}
	case <-waiting.Done(): // a waiter failed, or the caller's context has ended
		t.Abort(cancel)
	}
	e := g.Wait()
	if e != nil {
		return r, e
	}
	r.Elapsed, r.HandOffs, r.Moved = rec.last.Sub(rec.first), rec.handOffs, rec.moved
	r.Sent = t.Sent().Since(before)
	return r, err
}

// form waits until all waiters have joined and nothing happens any more.
func (q Line) form(ctx context.Context, s stand.Stand, t *stand.Team, rec *recorder, r *LineResult) error {
	queue := t.QueueOf(rec.name)
	if err := joined(ctx, s, queue, q.Waiters+1); err != nil {
		return err
	}
	r.Joins = time.Since(rec.began)
	if err := s.Fill(ctx, queue, q.Behind); err != nil {
		return err
	}
	return t.Quiet(ctx, q.Settle)
}

// joined waits until a queue has n entries.
func joined(ctx context.Context, s stand.Stand, queue string, n int) error {
	pause := time.Millisecond
	if n > 1000 {
		pause = 20 * time.Millisecond // counting many entries may cost the server as much
	}
	for {
		there, err := s.Length(ctx, queue)
		if err != nil || there >= n {
			return err
		}
		if err := stand.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d of %d have joined: %w", there, n, err)
		}
	}
}

// turn is one waiter: it acquires, holds and releases. It closes done at the last hand-off that
// counts. Errors after that do not matter.
func (q Line) turn(ctx context.Context, rec *recorder, i int, done chan struct{}) error {
	unlock, err := rec.t.Contenders[i].Lock(ctx, rec.name)
	at := time.Now()
	if err != nil {
		if rec.isOver() {
			return nil
		}
		return err
	}
	if rec.granted(i, at) {
		close(done)
	}
	if q.Hold > 0 {
		if err := stand.Sleep(ctx, q.Hold); err != nil {
			return errors.Join(err, unlock())
		}
	}
	rec.release(i)
	if err := unlock(); err != nil && !rec.isOver() {
		return err
	}
	return nil
}
