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

// Soak is the name of the mixed load among the kinds.
const Soak = "soak"

// The size of the mixed load.
const (
	workerCount = 15
	nemeses     = 2               // goroutines that inject faults
	warmUp      = 3 * time.Second // without faults
	minRate     = 50              // grants per second during warmUp; a run with fewer shows nothing
)

// soak is a mixed load: clients acquire and release locks of all recipes, and some of them
// are cut off as soon as they hold.
type soak struct {
	r         *Test
	rng       *rand.Rand // under mu
	queues    []history.Queue
	resources []*Resource // what each queue protects
	stop      chan struct{}
	workers   []*worker
	meter     stallMeter

	mu         sync.Mutex
	attempts   []history.Attempt
	hits       int // cuts
	missed     []string
	notGranted []string // requests that were not granted
	hanging    []string // requests that did not return
	opened     int      // how many clients were opened
	err        error
}

// worker makes one request after another.
type worker struct {
	id    int
	c     Client
	fault atomic.Pointer[pendingFault] // for its next request; nil if none
}

// pendingFault is a fault that waits for a worker's next request. Its hold lasts until the
// fault is over.
type pendingFault struct {
	held chan *participant // receives the participant when its request has returned; buffered
}

// Soak runs many clients for the time d, on five queues at random, and cuts off one after
// another at the moment when it holds. The result is one trial. It hit if the rate of grants
// was high enough, and every cut held bytes back. An error means that the service cannot be
// used any more.
func (r *Test) Soak(ctx context.Context, d time.Duration) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d+Wait)
	defer cancel()
	number := r.number(Soak)
	s := &soak{
		r: r, stop: make(chan struct{}),
		rng: rand.New(rand.NewPCG(r.seed, uint64(number))), //nolint:gosec // scripts, not secrets
	}
	res := &Result{
		Service: r.svc.Name(), Lock: r.lock, Kind: Soak, Queue: fmt.Sprintf("%s-%d", Soak, number), Seed: r.seed, Round: number,
		Transport: r.svc.Transport(),
	}
	for i, recipe := range []history.Recipe{history.Mutex, history.Reentrant, history.ReadWrite, history.Semaphore, history.Mutex} {
		if r.lock != Ours {
			recipe = history.Mutex
		}
		queue := history.Queue{Name: fmt.Sprintf("%s-%d", res.Queue, i), Recipe: recipe}
		if recipe == history.Semaphore {
			queue.Limit = 3
		}
		s.queues, s.resources = append(s.queues, queue), append(s.resources, NewResource(queue))
	}
	if err := s.openClients(ctx); err != nil {
		return nil, err
	}
	meter := stallMeter{metronome.Start()}
	s.meter = meter
	rate := s.runWorkers(ctx, d)
	if rate < minRate {
		s.missed = append(s.missed, fmt.Sprintf("%.0f grants/s before the faults, want %d (nothing ran for up to %s)", rate, minRate, meter.longest()))
	}
	s.finish(ctx, res)
	meter.Stop()
	res.figure(Stalled, meter.longest())
	found, figures := judgeHistory(res.History, meter, leftoverTime, history.Attempt{}, 0)
	res.Violations = append(res.Violations, found...)
	for _, a := range res.History.Attempts {
		res.Starved = res.Starved || starved(a, meter)
		res.judgeReturn(a, false, meter)
		res.judgeRelease(a, meter)
	}
	for i, queue := range s.queues {
		res.addResource(s.resources[i].Judge(queue.Name))
	}
	if figures.Margins > 0 {
		res.figure(NotifiedBefore, figures.Margin)
	}
	res.figure(Return, figures.Return)
	return res, s.err
}

// openClients opens the clients of all workers.
func (s *soak) openClients(ctx context.Context) error {
	s.workers = make([]*worker, workerCount)
	var g errgroup.Group
	for i := range s.workers {
		g.Go(func() (err error) {
			s.workers[i] = &worker{id: i}
			s.workers[i].c, err = s.newClient(ctx)
			return err
		})
	}
	return g.Wait()
}

func (s *soak) newClient(ctx context.Context) (Client, error) {
	s.mu.Lock()
	s.opened++
	s.mu.Unlock()
	return s.r.svc.Client(ctx, s.r.lock)
}

// runWorkers runs all workers, and returns how many requests were granted per second before
// the first fault.
func (s *soak) runWorkers(ctx context.Context, d time.Duration) float64 {
	var working, injecting sync.WaitGroup
	for _, w := range s.workers {
		working.Go(func() { s.work(ctx, w) }) // ends with stop
	}
	until(ctx, warmUp, s.stopped)
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
		injecting.Go(func() { s.injectFaults(ctx, i, end) }) // ends with end
	}
	until(ctx, d, s.stopped)
	close(end)
	// From stop on, all faults are over, and a request has only the time of L1. A worker that
	// hangs ends with stop, and so does the nemesis that waits for it.
	calm := make(chan struct{})
	go func() { // ends with the last nemesis
		defer close(calm)
		injecting.Wait()
	}()
	await(ctx, calm, timeout)
	close(s.stop)
	<-calm
	working.Wait()
	return float64(grants) / warmUp.Seconds()
}

func (s *soak) stopped() bool { return isClosed(s.stop) }

// draw returns a random number from 0 to n-1.
func (s *soak) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// work makes one request after another until stop.
func (s *soak) work(ctx context.Context, w *worker) {
	for !s.stopped() && ctx.Err() == nil {
		p := s.request(w)
		f := w.fault.Swap(nil)
		if f != nil {
			p.keep = -1
		}
		p.start()
		ended := s.awaitEnd(ctx, p)
		got := func() {
			select {
			case <-p.got:
			case <-ended: // it hangs
			}
		}
		if f != nil {
			got()
			f.held <- p
		} else if s.draw(10) == 0 { // it cancels, if the lock is not granted soon
			late := time.AfterFunc(time.Duration(s.draw(30))*time.Millisecond, p.end)
			got()
			late.Stop()
		}
		<-ended
		s.mu.Lock()
		s.attempts = append(s.attempts, p.attempts()...)
		s.mu.Unlock()
		if p.useless() && !s.replace(ctx, w) {
			return
		}
	}
}

// awaitEnd ends a request that outlives the load. A request that still waits at stop gets the
// time of L1 to be granted. If it is not, awaitEnd notes that, and ends its context. The channel
// that it returns is closed when the request is done, or when awaitEnd gives up on it.
func (s *soak) awaitEnd(ctx context.Context, p *participant) <-chan struct{} {
	done := make(chan struct{})
	go func() { // ends with the request
		defer close(done)
		select {
		case <-p.done:
			return
		case <-s.stop:
		}
		if !s.meter.await(ctx, p.got, Now(), func() time.Duration { return TTL + expiryDelay }) {
			s.note(&s.notGranted, "client %d was not granted %q within %s after the end of all faults", p.id, p.queue.Name, TTL+expiryDelay)
			p.end()
		}
		if !await(context.WithoutCancel(ctx), p.done, timeout) {
			s.note(&s.hanging, "client %d has not returned from %q within %s", p.id, p.queue.Name, timeout)
		}
	}()
	return done
}

// note adds a text to a list.
func (s *soak) note(list *[]string, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// request returns a participant with a random request of a worker.
func (s *soak) request(w *worker) *participant {
	i := s.draw(len(s.queues))
	queue := s.queues[i]
	req := Request{Weight: 1, Quiet: s.r.quiet(w.id)}
	switch queue.Recipe {
	case history.ReadWrite:
		req.Shared = s.draw(3) > 0
	case history.Semaphore:
		req.Weight = 1 + int64(s.draw(int(queue.Limit)))
	case history.Mutex, history.Reentrant:
	}
	return newParticipant(w.id, w.c, queue, s.resources[i], req, time.Duration(s.draw(4))*time.Millisecond)
}

// replace gives a worker a new client, and reports whether it has.
func (s *soak) replace(ctx context.Context, w *worker) bool {
	_ = w.c.Close() // it is useless
	for ctx.Err() == nil {
		c, err := s.newClient(ctx)
		if err == nil {
			w.c = c
			return true
		}
	}
	return false
}

// injectFaults cuts off one worker after another while it holds, until that worker is
// notified.
func (s *soak) injectFaults(ctx context.Context, i int, end <-chan struct{}) {
	for !isClosed(end) && ctx.Err() == nil {
		// Every nemeses-th worker from i on: no other nemesis chooses these.
		w := s.workers[s.draw((workerCount-i+nemeses-1)/nemeses)*nemeses+i]
		f := &pendingFault{held: make(chan *participant, 1)}
		w.fault.Store(f)
		var p *participant
		select {
		case p = <-f.held:
		case <-end:
			if w.fault.CompareAndSwap(f, nil) {
				return
			}
			p = <-f.held // the worker has accepted the fault
		}
		if p.holds() {
			s.cut(ctx, p)
		}
		p.release()
	}
}

// cut cuts a holder off until it is notified. The holder releases before or after the cut
// ends, at random.
func (s *soak) cut(ctx context.Context, p *participant) {
	direction := fault.Directions()[s.draw(3)]
	p.noteFault("cut " + direction.String())
	p.c.Cut(direction)
	hit := heldBack(ctx, p.c.Traffic)
	until(ctx, 2*TTL, p.over)
	if s.draw(2) == 0 {
		p.release()
	}
	until(ctx, time.Duration(s.draw(1000))*time.Millisecond, func() bool { return isClosed(p.done) })
	p.c.Heal()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits++
	if !hit {
		s.missed = append(s.missed, fmt.Sprintf("a cut of client %d held nothing back", p.id))
	}
}

// finish checks that nothing is left, closes the clients, and collects the records.
func (s *soak) finish(ctx context.Context, res *Result) {
	h := &History{Queues: s.queues, Attempts: s.attempts, Order: map[string][]history.Change{}}
	for _, queue := range s.queues {
		left, err := leftIn(ctx, s.r.svc, s.r.lock, queue.Name, s.meter)
		if err != nil {
			s.missed = append(s.missed, fmt.Sprintf("queue %s could not be read: %v", queue.Name, err))
		} else if len(left) > 0 {
			res.violated("S5", fmt.Sprintf("queue %s: %q is left", queue.Name, left))
		}
		order, err := s.r.svc.Order(ctx, s.r.lock, queue.Name)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			h.Order = nil
		case h.Order != nil:
			h.Order[queue.Name] = order
		}
		if err != nil && h.Order != nil {
			s.err = errors.Join(s.err, err)
		}
	}
	clients := make([]Client, len(s.workers))
	for i, w := range s.workers {
		clients[i] = w.c
	}
	if !closeAll(ctx, clients) {
		s.missed = append(s.missed, fmt.Sprintf("the clients were not closed within %s", timeout))
	}
	res.History, res.Clients, res.Faults = h, s.opened, s.hits
	res.count(h.Attempts)
	for _, text := range s.notGranted {
		res.violated("L1", text)
	}
	for _, text := range s.hanging {
		res.violated("S6", text)
	}
	switch {
	case len(s.missed) > 0:
		res.Missed = s.missed[0]
	case s.hits == 0:
		res.Missed = "no holder was cut off"
	}
}
