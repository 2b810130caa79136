package load

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// run is one run of a scenario.
type run struct {
	s        Service
	began    time.Time
	res      *Result
	atOnce   int // the largest number of things that exist at the same time
	sessions []*session.Session
	log      sessionLog
	within   time.Duration // how long figures may take to return
	pending  atomic.Int64
	start    Figures // no session is open
	idle     Figures // all sessions are open
}

// scenario opens sessions, has f put load on them, and closes them.
func scenario(ctx context.Context, s Service, name string, n, sessions int, f func(context.Context, *run) error) (*Result, error) {
	r := &run{s: s, began: time.Now(), atOnce: max(n, sessions), within: settleWithin, res: &Result{Scenario: name, Service: s.Name(), N: n, Sessions: sessions}}
	err := r.whole(ctx, sessions, f)
	r.res.Pending = r.pending.Load()
	r.log.report(r.res)
	if err == nil && len(r.res.NotBack) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotBack, strings.Join(r.res.NotBack, "; "))
	}
	if err != nil {
		err = fmt.Errorf("load: %v: %w", r.res, err)
	}
	return r.res, err
}

func (r *run) whole(ctx context.Context, sessions int, f func(context.Context, *run) error) (err error) {
	if err := r.measureStart(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.phase("open", func() error { return r.open(ctx, sessions) }); err != nil {
		return err
	}
	if err := r.phase("first use", func() error { return r.firstUse(ctx) }); err != nil {
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

// phase calls f, and records how long that took.
func (r *run) phase(name string, f func() error) error {
	began := time.Now()
	err := f()
	r.res.Phases = append(r.res.Phases, Phase{name, time.Since(began)})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// moment measures the figures, and records them.
func (r *run) moment(ctx context.Context, name string) (Figures, error) {
	f, err := figures(ctx, r.s)
	if err == nil {
		r.note(name, f)
	}
	return f, err
}

// note records figures. It also raises atOnce to the number of watches: a watch exists
// for a while after its last use, so while names change quickly there are many more
// watches at once than locks.
func (r *run) note(name string, f Figures) {
	r.atOnce = max(r.atOnce, int(f.Watches))
	r.res.Moments = append(r.res.Moments, Moment{name, time.Since(r.began), f})
}

// back waits until all figures are what they were, and records those that are not.
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

// measureStart measures the figures before any session is open. It waits until they are
// steady, because something that was closed before may still be ending.
func (r *run) measureStart(ctx context.Context) (err error) {
	prime(goroutinesEach*r.atOnce + goroutinesOfSession*r.res.Sessions)
	err = steady(ctx, "the figures at the start", func() (int64, error) {
		r.start, err = figures(ctx, r.s)
		f := &r.start
		return f.Keys + f.Watches + f.Server.Sessions + f.Streams + f.Goroutines + f.Files, err
	})
	if err == nil {
		r.note(momentStart, r.start)
	}
	return err
}

// goroutinesEach bounds the goroutines of one waiter: its own, and one that sends a
// request for it. goroutinesOfSession bounds those of a session, most of which are the
// client's: twelve on etcd while the session is idle, three more during a request.
const (
	goroutinesEach      = 3
	goroutinesOfSession = 15
)

// prime runs n goroutines at once, for a moment. Go keeps half a KiB of each goroutine
// that ever existed for the next one (runtime.allgs never shrinks). Without prime, that
// memory would count as memory that a session keeps.
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
	opts := r.log.options()
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

// firstUse has every session hold a lock until it is watched and the session has been
// renewed, releases the locks, and records the figures of idle sessions. Whatever the
// first use creates belongs to an idle session: on etcd a stream for the watches and one
// for renewals, on ZooKeeper the folders above the queues. The stream of watches is
// closed after 30 s in which nothing was watched, so no scenario is idle for so long.
func (r *run) firstUse(ctx context.Context) error {
	holds, err := r.hold(ctx, "first", len(r.sessions))
	if err != nil {
		return err
	}
	want := r.start.Watches + int64(len(holds))
	if err := r.watched(ctx, func(w int64) bool { return w >= want }); err != nil {
		return err
	}
	err = until(ctx, "all sessions were renewed", func() (bool, error) { return r.log.allRenewed(len(r.sessions)), nil })
	err = errors.Join(err, r.release(holds))
	if err != nil {
		return err
	}
	if err := r.watched(ctx, func(w int64) bool { return w == r.start.Watches }); err != nil {
		return err
	}
	if err := r.onlyOurs(ctx); err != nil {
		return err
	}
	least := int64(math.MaxInt64) // of thousands of sessions, some are renewing at any moment
	err = steady(ctx, "the figures of idle sessions", func() (int64, error) {
		r.idle, err = figures(ctx, r.s)
		f := &r.idle
		least = min(least, f.Goroutines)
		f.Goroutines = least
		return f.Keys + f.Watches + f.Server.Sessions + f.Streams + f.Goroutines + f.Files, err
	})
	if err == nil {
		r.note(momentIdle, r.idle)
	}
	return err
}

// onlyOurs waits until the server has no sessions but ours. On etcd, an attempt to open
// a session that was given up and repeated may have left a lease, which expires.
func (r *run) onlyOurs(ctx context.Context) error {
	return until(ctx, "the server has only our sessions", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return f.Sessions == r.start.Server.Sessions+int64(len(r.sessions)), err
	})
}

// watched waits until ready reports true for the number of the server's watches.
func (r *run) watched(ctx context.Context, ready func(int64) bool) error {
	return until(ctx, "the number of watches is right", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return ready(f.Watches), err
	})
}

// acquirers is how many locks are acquired at the same time.
const acquirers = 128

// hold acquires n locks of different names, evenly over the sessions.
func (r *run) hold(ctx context.Context, prefix string, n int) ([]*session.Hold, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(acquirers)
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

// release releases all holds at once.
func (r *run) release(holds []*session.Hold) error {
	var g errgroup.Group
	for _, h := range holds {
		g.Go(func() error { return r.unlock(h) })
	}
	return g.Wait()
}

// unlock releases one hold. It counts an Unlock that did not wait for its acknowledgement
// as pending, which is no error.
func (r *run) unlock(h *session.Hold) error {
	err := h.Unlock()
	if errors.Is(err, session.ErrReleasePending) {
		r.pending.Add(1)
		return nil
	}
	return err
}

// emptied waits until the server has no more keys than with idle sessions. On ZooKeeper
// that includes the removal of empty folders.
func (r *run) emptied(ctx context.Context) error {
	return until(ctx, "no entries are left", func() (bool, error) {
		f, err := r.s.Server(ctx)
		return f.Keys <= r.idle.Keys, err
	})
}
