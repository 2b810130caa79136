package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// openers is how many sessions are opened and closed at the same time.
const openers = 32

// run is a scenario that goes on.
type run struct {
	s        Store
	began    time.Time
	res      *Result
	atOnce   int // the most things that are there at the same time
	sessions []*session.Session
	heard    heard
	within   time.Duration // to return
	pending  atomic.Int64
	start    Figures // no session is open
	idle     Figures // all are
}

// scenario opens sessions, has f put weight on them, and closes them.
func scenario(ctx context.Context, s Store, name string, n, sessions int, f func(context.Context, *run) error) (*Result, error) {
	r := &run{s: s, began: time.Now(), atOnce: max(n, sessions), within: settleWithin, res: &Result{Scenario: name, Store: s.Name(), N: n, Sessions: sessions}}
	err := r.whole(ctx, sessions, f)
	r.res.Pending = r.pending.Load()
	r.heard.report(r.res)
	if err == nil && len(r.res.NotBack) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotBack, strings.Join(r.res.NotBack, "; "))
	}
	if err != nil {
		err = fmt.Errorf("load: %v: %w", r.res, err)
	}
	return r.res, err
}

func (r *run) whole(ctx context.Context, sessions int, f func(context.Context, *run) error) (err error) {
	if err := r.origin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.phase("open", func() error { return r.open(ctx, sessions) }); err != nil {
		return err
	}
	if err := r.phase("first use", func() error { return r.use(ctx) }); err != nil {
		return err
	}
	if err := f(ctx, r); err != nil {
		return err
	}
	if err := r.phase("close", r.close); err != nil {
		return err
	}
	return r.back(ctx, momentEnd, r.start)
}

// phase does something and notes how long that took.
func (r *run) phase(name string, f func() error) error {
	began := time.Now()
	err := f()
	r.res.Phases = append(r.res.Phases, Phase{name, time.Since(began)})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// moment notes how things stand.
func (r *run) moment(ctx context.Context, name string) (Figures, error) {
	f, err := figures(ctx, r.s)
	if err == nil {
		r.note(name, f)
	}
	return f, err
}

// note also counts watches: they are kept for a while after their last use, so of
// names that change quickly many more are there at once than have been asked for.
func (r *run) note(name string, f Figures) {
	r.atOnce = max(r.atOnce, int(f.Watches))
	r.res.Moments = append(r.res.Moments, Moment{name, time.Since(r.began), f})
}

// back waits until all is where it was, and notes what is not.
func (r *run) back(ctx context.Context, name string, was Figures) error {
	return r.phase("until "+name, func() error {
		is, wrong, err := r.returned(ctx, was)
		if err != nil {
			return err
		}
		r.note(name, is)
		for _, w := range wrong {
			r.res.NotBack = append(r.res.NotBack, "at "+name+", "+w)
		}
		return nil
	})
}

// origin takes stock before anything is open. What was closed before may still
// be on its way out.
func (r *run) origin(ctx context.Context) (err error) {
	prime(goroutinesEach*r.atOnce + goroutinesOfSession*r.res.Sessions)
	err = steady(ctx, "what there is at the start", func() (int64, error) {
		r.start, err = figures(ctx, r.s)
		f := &r.start
		return f.Keys + f.Watches + f.Server.Sessions + f.Streams + f.Goroutines + f.Files, err
	})
	if err == nil {
		r.note(momentStart, r.start)
	}
	return err
}

// goroutinesEach is how many goroutines there are at the most for one that waits:
// its own, and one that asks or gives back for it. A session has some of its own
// too, and most of them are the client's: twelve on etcd while it idles, three more
// while it asks.
const (
	goroutinesEach      = 3
	goroutinesOfSession = 15
)

// prime has so many goroutines at once, for a moment. Go keeps half a KiB of each
// goroutine that ever was for the next one (runtime.allgs never shrinks), and that
// is not to be taken for something that a session keeps.
func prime(n int) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range n {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// open opens the sessions.
func (r *run) open(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(openers)
	opts := r.heard.options()
	var mu sync.Mutex
	for range n {
		g.Go(func() error {
			s, err := r.s.Open(ctx, opts)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			r.sessions = append(r.sessions, s)
			return nil
		})
	}
	return g.Wait()
}

// close closes the sessions. Closing again does nothing.
func (r *run) close() error {
	var g errgroup.Group
	g.SetLimit(openers)
	for _, s := range r.sessions {
		g.Go(s.Close)
	}
	r.sessions = nil
	return g.Wait()
}

// use has every session hold something until it is watched and the session has
// been renewed, and give it back: what is made at the first use (on etcd a stream
// for the watches and one for renewals, on ZooKeeper the folders above the lines)
// belongs to a session that idles. The stream of watches is closed again after
// 30 s for which nothing was watched, so no scenario rests for so long.
func (r *run) use(ctx context.Context) error {
	holds, err := r.hold(ctx, "first", len(r.sessions))
	if err != nil {
		return err
	}
	want := r.start.Watches + int64(len(holds))
	if err := r.watched(ctx, func(w int64) bool { return w >= want }); err != nil {
		return err
	}
	err = until(ctx, "all sessions were renewed", func() (bool, error) { return r.heard.allRenewed(len(r.sessions)), nil })
	if err = errors.Join(err, r.giveBack(holds)); err != nil {
		return err
	}
	if err := r.watched(ctx, func(w int64) bool { return w == r.start.Watches }); err != nil {
		return err
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	err = steady(ctx, "what there is of idle sessions", func() (int64, error) {
		r.idle, err = figures(ctx, r.s)
		f := &r.idle
		return f.Keys + f.Watches + f.Server.Sessions + f.Streams + f.Goroutines + f.Files, err
	})
	if err == nil {
		r.note(momentIdle, r.idle)
	}
	return err
}

// alone waits until the server knows no sessions but ours: one whose opening was
// given up and tried again may have left one on etcd, which ends by itself.
func (r *run) alone(ctx context.Context) error {
	return until(ctx, "no sessions are there but ours", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return f.Sessions == r.start.Server.Sessions+int64(len(r.sessions)), err
	})
}

// watched waits until the server's watches are as they should be.
func (r *run) watched(ctx context.Context, enough func(int64) bool) error {
	return until(ctx, "watches are as they should be", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return enough(f.Watches), err
	})
}

// takers is how many take locks at the same time.
const takers = 128

// hold takes n locks, of different names, evenly over the sessions.
func (r *run) hold(ctx context.Context, prefix string, n int) ([]*session.Hold, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(takers)
	holds := make([]*session.Hold, n)
	for i := range holds {
		g.Go(func() (err error) {
			name := fmt.Sprintf("%s/%d", prefix, i)
			holds[i], err = mutex.New(r.sessions[i%len(r.sessions)], name).Lock(ctx)
			return err
		})
	}
	return holds, g.Wait()
}

// giveBack gives back all at once.
func (r *run) giveBack(holds []*session.Hold) error {
	var g errgroup.Group
	for _, h := range holds {
		g.Go(func() error { return r.unlock(h) })
	}
	return g.Wait()
}

// unlock gives back one. That it takes longer than an Unlock waits is counted.
func (r *run) unlock(h *session.Hold) error {
	err := h.Unlock()
	if errors.Is(err, session.ErrReleasePending) {
		r.pending.Add(1)
		return nil
	}
	return err
}

// emptied waits until the server has no more keys than idle sessions leave, or,
// where folders stay until they are removed, until they are.
func (r *run) emptied(ctx context.Context) error {
	return until(ctx, "no entries are left", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return f.Keys <= r.idle.Keys, err
	})
}
