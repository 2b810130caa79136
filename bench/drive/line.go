package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// A Line is a line to be formed and run down.
type Line struct {
	Waiters int
	Behind  int           // so many entries without an owner stand behind the waiters
	Settle  time.Duration // how long nothing must happen before the first release
	Hold    time.Duration // how long each has the lock
	Bound   int           // after so many hand-offs the rest goes home; 0 is never
}

// LineResult is what one line has shown.
type LineResult struct {
	Joins    time.Duration // until all had joined
	Elapsed  time.Duration // from the first release to the last grant that counts
	HandOffs []HandOff
	Moved    stand.Counts // by all, in that time
	Sent     stand.Counts // by all, from the first join to the last release
}

// run has contender 0 of a team lock and q.Waiters more line up, in whatever
// order, and lets the lock go down the line. What is left there afterwards is cleared.
func (q Line) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (LineResult, error) {
	r, err := q.down(ctx, s, t, name)
	if err == nil {
		err = s.Clear(ctx, t.Line(name))
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
	b := &baton{t: t, name: name, want: q.Waiters}
	if q.Bound > 0 {
		b.want = min(q.Bound, q.Waiters)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	enough := make(chan struct{})
	b.began = time.Now()
	for i := 1; i <= q.Waiters; i++ {
		g.Go(func() error {
			err := q.take(waiting, b, i, enough)
			if err != nil {
				t.Abandon(cancel)
			}
			return err
		})
	}
	if err = q.form(waiting, s, t, b, &r); err == nil {
		b.release(0)
		err = unlock()
	}
	if err != nil {
		t.Abandon(cancel)
		return r, errors.Join(err, g.Wait())
	}
	select {
	case <-enough:
		if b.want < q.Waiters {
			err = t.Disperse(cancel)
		}
	case <-waiting.Done(): // somebody failed, or all is to end
		t.Abandon(cancel)
	}
	if e := g.Wait(); e != nil {
		return r, e
	}
	r.Elapsed, r.HandOffs, r.Moved = b.last.Sub(b.first), b.handOffs, b.moved
	r.Sent = t.Sent().Since(before)
	return r, err
}

// form waits until the line stands.
func (q Line) form(ctx context.Context, s stand.Stand, t *stand.Team, b *baton, r *LineResult) error {
	line := t.Line(b.name)
	if err := joined(ctx, s, line, q.Waiters+1); err != nil {
		return err
	}
	r.Joins = time.Since(b.began)
	if err := s.Fill(ctx, line, q.Behind); err != nil {
		return err
	}
	return t.Quiet(ctx, q.Settle)
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
func (q Line) take(ctx context.Context, b *baton, i int, enough chan struct{}) error {
	unlock, err := b.t.Contenders[i].Lock(ctx, b.name)
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
	if q.Hold > 0 {
		if err := stand.Sleep(ctx, q.Hold); err != nil {
			return errors.Join(err, unlock())
		}
	}
	b.release(i)
	if err := unlock(); err != nil && !b.stopped() {
		return err
	}
	return nil
}
