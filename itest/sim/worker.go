package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// worker uses the library. It has a random source of its own, so that what it does next
// does not depend on others.
type worker struct {
	w      *simulation
	c      *client
	name   string
	random *rand.Rand
	ctx    context.Context //nolint:containedctx // carries the worker's name to the scheduler
}

// addWorker makes a worker on a client.
func (w *simulation) addWorker(ctx context.Context, c *client) *worker {
	n := len(w.workers)
	k := &worker{w: w, c: c, name: name("w", n), random: rand.New(rand.NewPCG(w.cfg.Seed, uint64(1000+n)))}
	k.ctx = context.WithValue(ctx, actor{}, k.name)
	w.workers = append(w.workers, k)
	return k
}

func (k *worker) chance(n int) bool { return k.random.IntN(n) == 0 }
func (k *worker) in(a, b time.Duration) time.Duration {
	return a + time.Duration(k.random.Int64N(int64(b-a)+1))
}

// sleep blocks the worker for a while. No other worker acts at the moment at which it goes on.
func (k *worker) sleep(a, b time.Duration) { k.c.sleep(k.name, k.in(a, b)) }

// work makes the rounds of a worker.
func (k *worker) work() {
	<-k.c.opened
	k.sleep(0, 500*time.Millisecond)
	for range 2 + k.random.IntN(4) {
		if k.chance(15) && !k.c.closing && len(k.w.watched) == 0 {
			k.restart()
		}
		k.w.recipe.round(k)
		switch {
		case k.chance(4):
			k.sleep(0, time.Second)
		case k.chance(2):
			k.sleep(0, 30*time.Millisecond)
		default:
			k.sleep(0, time.Millisecond)
		}
	}
	k.w.report(k.name+" done", func() { k.w.busy-- })
}

// restart closes the session of the worker's process, which other workers use too, and
// opens another.
func (k *worker) restart() {
	k.c.closing, k.c.shut = true, k.w.Now()
	k.sleep(0, 0)           // Close may wait in a sync.WaitGroup, and the race detector does not see synctest.Wait wait for that
	_ = k.c.session.Close() // with an error its entries stay until it expires
	k.sleep(0, 0)
	s := k.c.dial(k.name)
	k.c.session, k.c.closing = s, false
	k.w.report(k.name, func() { k.w.log(k.c, "restarted", k.name) })
	k.sleep(0, 0)
}

// close acquires every lock once more, as the last worker.
func (k *worker) close() {
	k.sleep(0, time.Millisecond)
	k.w.recipe.finish(k)
	k.w.report(k.name+" done", func() { k.w.busy-- })
}

// attempt is a call of a recipe for a hold.
type attempt struct {
	k        *worker
	called   time.Duration
	ends     time.Duration // when its context ended; -1: not yet
	returned bool
}

// hold is a hold that a caller got.
type hold struct {
	*attempt
	h        *session.Hold
	name     string
	queues   []*queue
	mode     driver.Mode
	weight   int64
	plain    bool // it was acquired without a ledger
	got      time.Duration
	entries  []*entry
	place    int64         // its entries' place
	back     time.Duration // when the function returned that Do had called
	released bool          // the caller has begun to release it
	over     bool          // a check has seen that it is over
}

// errNothing is a violation.
var errNothing = errors.New("neither a hold nor an error")

// wanted is what a caller wants.
type wanted struct {
	queues []*queue
	mode   driver.Mode
	weight int64
	try    bool
	plain  bool // without a ledger, where others use one
	ends   int  // the context ends once in so many times; 0: never
}

// acquire calls a recipe for a hold, and returns nil if it got none.
func (k *worker) acquire(as wanted, want func(context.Context) (*session.Hold, error)) *hold {
	w := k.w
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	a := &attempt{k: k, called: w.Now(), ends: -1}
	if as.ends > 0 && k.chance(as.ends) {
		d := k.in(0, 100*time.Millisecond)
		if k.chance(2) {
			d = k.in(0, ttl)
		}
		w.post(&event{
			what: atActor, c: k.c, name: k.name + " gives up", num: k.c.true(d),
			idle: func() bool { return a.returned },
			run:  func() { a.ends = w.Now(); cancel() },
		})
	}
	h, err := want(ctx)
	a.returned = true
	if h == nil && err == nil {
		err = errNothing
	}
	if err != nil {
		w.report(k.name, func() { w.refused(a, as, err) })
		k.sleep(0, time.Millisecond)
		return nil
	}
	hd := k.takes(a, as, h)
	k.sleep(0, 0)
	return hd
}

// takes reports that a caller got a hold.
func (k *worker) takes(a *attempt, as wanted, h *session.Hold) *hold {
	hd := &hold{attempt: a, h: h, name: h.Name(), queues: as.queues, mode: as.mode, weight: max(as.weight, 1), plain: as.plain, got: k.w.Now()}
	k.w.report(k.name, func() { k.w.grant(hd) })
	return hd
}

// keep keeps a hold for a while, and inspects it now and then.
func (k *worker) keep(hd *hold) {
	d := k.in(0, 60*time.Millisecond)
	switch k.random.IntN(12) {
	case 0, 1:
		d = 0
	case 2, 3:
		d = k.in(0, 600*time.Millisecond)
	case 4:
		d = k.in(ttl/2, 3*ttl/2)
	}
	for part := range 3 {
		k.sleep(d/4, d/3)
		if part > 0 || k.chance(2) {
			k.inspect(hd)
		}
	}
}

// inspect reports whether a hold is valid and its context live.
func (k *worker) inspect(hd *hold) {
	live := hd.h.Context().Err() == nil
	valid := hd.h.Remaining() > 0
	k.w.report(k.name, func() { k.w.checked(hd, valid, live) })
}

// unlockBound is how long an Unlock may take.
const unlockBound = time.Second + bound

// release unlocks a hold.
func (k *worker) release(hd *hold) {
	if hd == nil {
		return
	}
	hd.released = true
	called := k.w.Now()
	err := hd.h.Unlock()
	again := error(nil)
	if k.chance(10) {
		again = hd.h.Unlock()
	}
	k.w.report(k.name, func() { k.w.unlocked(hd, called, err, again) })
	k.sleep(0, 0)
}
