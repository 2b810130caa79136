package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// Soak is the name of mixed work as a kind.
const Soak = "soak"

// The size of mixed work.
const (
	workers   = 15
	nemeses   = 2 // that aim faults at the same time
	quiet     = 3 * time.Second
	perSecond = 50 // grants before any fault; a run with fewer shows nothing
)

// soak is mixed work: clients that take locks of all recipes and give them back,
// while some are cut off as soon as they hold.
type soak struct {
	r     *Test
	rng   *rand.Rand // under mu
	lines []history.Queue
	at    []*resource // that each line protects
	stop  chan struct{}
	team  []*worker

	mu       sync.Mutex
	attempts []history.Attempt
	hits     int
	missed   []string
	stuck    []string // requests that were not granted
	made     int      // clients
	cause    error
}

// worker makes one request after another.
type worker struct {
	id   int
	c    Client
	next atomic.Pointer[appointment] // to be met when it holds next
}

// appointment waits for a worker to hold, who then goes on holding until it is over.
type appointment struct {
	met chan *player // has room for one
}

// Soak has many clients work for a time, on five lines at random, and cuts one
// after the other off in the moment when it holds. The result is one trial, which
// hit if there was enough to disturb, and every fault met something. An error
// means that the service is of no use any more.
func (r *Test) Soak(ctx context.Context, d time.Duration) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d+Wait)
	defer cancel()
	number := r.number(Soak)
	s := &soak{
		r: r, stop: make(chan struct{}),
		rng: rand.New(rand.NewPCG(r.seed, uint64(number))), //nolint:gosec // scripts, not secrets
	}
	res := &Result{Service: r.svc.Name(), Lock: r.lock, Kind: Soak, Line: fmt.Sprintf("%s-%d", Soak, number), Seed: r.seed, Round: number}
	for i, recipe := range []history.Recipe{history.Mutex, history.Reentrant, history.ReadWrite, history.Semaphore, history.Mutex} {
		if r.lock != Ours {
			recipe = history.Mutex
		}
		line := history.Queue{Name: fmt.Sprintf("%s-%d", res.Line, i), Recipe: recipe}
		if recipe == history.Semaphore {
			line.Limit = 3
		}
		s.lines, s.at = append(s.lines, line), append(s.at, newResource(line))
	}
	if err := s.hire(ctx); err != nil {
		return nil, err
	}
	beat := beat{metronome.Start()}
	rate := s.work(ctx, d)
	beat.Stop()
	if rate < perSecond {
		s.missed = append(s.missed, fmt.Sprintf("%.0f grants/s before the faults, want %d (nothing ran for up to %s)", rate, perSecond, beat.worst()))
	}
	s.finish(ctx, res)
	res.figure(Stalled, beat.worst())
	found, figures := judged(res.History, beat, remains, 0, 0)
	res.Violations = append(res.Violations, found...)
	for i, line := range s.lines {
		res.tolled(s.at[i].judge(line.Name))
	}
	if figures.Margins > 0 {
		res.figure(ToldBefore, figures.Margin)
	}
	res.figure(Return, figures.Return)
	return res, s.cause
}

// hire opens the clients.
func (s *soak) hire(ctx context.Context) error {
	s.team = make([]*worker, workers)
	var g errgroup.Group
	for i := range s.team {
		g.Go(func() (err error) {
			s.team[i] = &worker{id: i}
			s.team[i].c, err = s.client(ctx)
			return err
		})
	}
	return g.Wait()
}

func (s *soak) client(ctx context.Context) (Client, error) {
	s.mu.Lock()
	s.made++
	s.mu.Unlock()
	return s.r.svc.Client(ctx, s.r.lock)
}

// work has everybody work, and returns how many were granted in a second before
// the first fault.
func (s *soak) work(ctx context.Context, d time.Duration) float64 {
	var team, aiming sync.WaitGroup
	for _, w := range s.team {
		team.Go(func() { s.serve(ctx, w) }) // ends with stop
	}
	until(ctx, quiet, s.stopped)
	s.mu.Lock()
	grants := 0
	for _, a := range s.attempts {
		if a.Failed == "" && !a.Nested {
			grants++
		}
	}
	s.mu.Unlock()
	end := make(chan struct{})
	for i := range nemeses {
		aiming.Go(func() { s.aim(ctx, i, end) }) // ends with end
	}
	until(ctx, d, s.stopped)
	close(end)
	close(s.stop)
	aiming.Wait()
	team.Wait()
	return float64(grants) / quiet.Seconds()
}

func (s *soak) stopped() bool { return isClosed(s.stop) }

// draw draws from 0 to n-1.
func (s *soak) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// serve makes one request after another until all stop.
func (s *soak) serve(ctx context.Context, w *worker) {
	for !s.stopped() && ctx.Err() == nil {
		p := s.request(w)
		f := w.next.Swap(nil)
		if f != nil {
			p.keep = -1
		}
		p.start()
		ended := s.ends(ctx, p)
		if f != nil {
			<-p.got
			f.met <- p
		} else if s.draw(10) == 0 { // it gives up, if it does not get it soon
			late := time.AfterFunc(time.Duration(s.draw(30))*time.Millisecond, p.end)
			<-p.got
			late.Stop()
		}
		<-p.gone
		<-ended
		s.mu.Lock()
		s.attempts = append(s.attempts, p.attempts()...)
		s.mu.Unlock()
		if p.useless() && !s.replace(ctx, w) {
			return
		}
	}
}

// ends sees that a request does not outlive the work: one that waits when all is
// over has as long as whoever is first in line may have to wait, and then its
// context ends, and that is noted.
func (s *soak) ends(ctx context.Context, p *player) <-chan struct{} {
	done := make(chan struct{})
	go func() { // ends with the request
		defer close(done)
		select {
		case <-p.gone:
			return
		case <-s.stop:
		}
		if await(ctx, p.got, progress(0)) {
			return
		}
		s.mu.Lock()
		s.stuck = append(s.stuck, fmt.Sprintf("client %d was not granted %q within %s of the end of all faults", p.id, p.line.Name, progress(0)))
		s.mu.Unlock()
		p.end()
	}()
	return done
}

// request draws what a worker asks for.
func (s *soak) request(w *worker) *player {
	i := s.draw(len(s.lines))
	line := s.lines[i]
	ask := Ask{Weight: 1}
	switch line.Recipe {
	case history.ReadWrite:
		ask.Shared = s.draw(3) > 0
	case history.Semaphore:
		ask.Weight = 1 + int64(s.draw(int(line.Limit)))
	case history.Mutex, history.Reentrant:
	}
	return newPlayer(w.id, w.c, line, s.at[i], ask, time.Duration(s.draw(4))*time.Millisecond)
}

// replace gives a worker another client.
func (s *soak) replace(ctx context.Context, w *worker) bool {
	_ = w.c.Close() // it is of no use any more
	for ctx.Err() == nil {
		c, err := s.client(ctx)
		if err == nil {
			w.c = c
			return true
		}
	}
	return false
}

// aim harms one worker after the other when it holds, until it is told that it does
// so no more.
func (s *soak) aim(ctx context.Context, i int, end <-chan struct{}) {
	for !isClosed(end) && ctx.Err() == nil {
		w := s.team[s.draw(workers/nemeses)*nemeses+i] // nobody else's
		f := &appointment{met: make(chan *player, 1)}
		w.next.Store(f)
		var p *player
		select {
		case p = <-f.met:
		case <-end:
			if w.next.CompareAndSwap(f, nil) {
				return
			}
			p = <-f.met // it has taken it on
		}
		if p.holds() {
			s.harm(ctx, p)
		}
		p.let()
	}
}

// harm cuts a holder off until it knows, and has it give back before the cut ends
// or behind that.
func (s *soak) harm(ctx context.Context, p *player) {
	way := fault.Directions()[s.draw(3)]
	p.harm("cut " + way.String())
	p.c.Cut(way)
	hit := steadily(ctx, p.c.Traffic)
	until(ctx, 2*TTL, p.over)
	if s.draw(2) == 0 {
		p.let()
	}
	until(ctx, time.Duration(s.draw(1000))*time.Millisecond, func() bool { return isClosed(p.gone) })
	p.c.Heal()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits++
	if !hit {
		s.missed = append(s.missed, fmt.Sprintf("a cut of client %d met nothing", p.id))
	}
}

// finish closes all, and collects what there is.
func (s *soak) finish(ctx context.Context, res *Result) {
	h := &History{Lines: s.lines, Attempts: s.attempts, Order: map[string][]history.Change{}}
	for _, line := range s.lines {
		var left []string
		err := untilSeen(ctx, remains, func(ctx context.Context) (bool, error) {
			now, err := s.r.svc.Entries(ctx, s.r.lock, line.Name)
			if err == nil {
				left = now
			}
			return err == nil && len(now) == 0, err
		})
		if err != nil {
			res.violated("S5", fmt.Sprintf("line %s: %q is left: %v", line.Name, left, err))
		}
		if h.Order[line.Name], err = s.r.svc.Order(ctx, s.r.lock, line.Name); err != nil {
			s.cause = errors.Join(s.cause, err)
		}
	}
	var g errgroup.Group
	for _, w := range s.team {
		g.Go(func() error {
			_ = w.c.Close() // its session may be over
			return nil
		})
	}
	_ = g.Wait()
	res.History, res.Clients, res.Faults = h, s.made, s.hits
	res.count(h.Attempts)
	for _, text := range s.stuck {
		res.violated("L1", text)
	}
	switch {
	case len(s.missed) > 0:
		res.Missed = s.missed[0]
	case s.hits == 0:
		res.Missed = "no holder was cut off"
	}
}
