package demo

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	proc "github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/session/driver"
)

// The parameters of the demonstration. The TTL is short, because every waiter waits that
// long after a holder was killed: with the usual TTL, 15 s.
const (
	lockName = "ledger"
	ttl      = 2 * time.Second

	visibleJob = 320 * time.Millisecond // slow enough to follow
	quickJob   = time.Millisecond       // to measure hand-offs
	expected   = 20 * time.Second

	// The demonstration ends within a minute, whatever happens. These are the latest ends
	// of the script, of the workers and of the checks, from its beginning. A busy machine
	// may need them; usually each part ends long before.
	scriptEnd  = 50 * time.Second
	workersEnd = 54 * time.Second
	checkEnd   = 60 * time.Second

	// interruptTimeout is how long workers may take to leave after ^C.
	interruptTimeout = 700 * time.Millisecond
)

// endlessJob is the job during which a fault happens. Only the fault or an order ends it,
// so even on a slow machine the fault does not come after the job.
const endlessJob = time.Hour

// careless is the worker that never checks whether it still holds.
const careless = "dan"

// script runs the demonstration from beginning to end. It returns an error if something
// that it waits for does not happen.
func (d *demonstration) script(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		d.open, d.turns, d.kill, d.replace, d.stop, d.wake, d.runFast,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open starts five workers.
func (d *demonstration) open(ctx context.Context) error {
	d.state.say(screen.Plain, "Five processes start. Each opens a session on %s, TTL %s.", d.kind.terms.Service, ttl)
	for _, name := range []string{"ada", "bob", "cleo", careless, "eve"} {
		if err := d.startWorker(name); err != nil {
			return err
		}
	}
	return d.state.until(ctx, "all workers get their sessions", d.allReady)
}

// allReady reports whether all workers are ready. The caller holds state.mu.
func (d *demonstration) allReady() bool {
	for _, w := range d.state.workers {
		if !w.ready {
			return false
		}
	}
	return true
}

// turns lets the workers take turns for 3 s.
func (d *demonstration) turns(ctx context.Context) error {
	d.state.say(screen.Plain, "Five processes take turns: first come, first served.")
	return sleep(ctx, 3*time.Second)
}

// kill kills a worker while it holds.
func (d *demonstration) kill(ctx context.Context) error {
	g, err := d.pickHolder(ctx, "killed", func(name string) bool { return name != careless })
	if err != nil {
		return err
	}
	p, s := d.process(g.Worker), d.state
	at := stamp.Now()
	s.change(func() {
		s.kill = check.Kill{Worker: g.Worker, PID: g.PID, Token: g.Token, At: at}
		w := s.workers[g.Worker]
		w.state, w.since = view.Killed, at
	})
	if err := p.wrapSignal(p.Signal(os.Kill)); err != nil {
		return err
	}
	<-p.done // the kernel ends a killed process at once
	s.change(func() {
		now := stamp.Now()
		if proc.Killed(p.err) {
			s.kill.Reaped = now
		}
		s.kill.Present = s.deletedAt[g.Token] == 0 || s.deletedAt[g.Token] > at
		i := s.byToken[g.Token]
		if s.grants[i].How == check.Open {
			s.grants[i].How, s.grants[i].End = check.Killed, now
		}
	})
	s.say(screen.Bad, "kill -9 %s, which holds. Its entry goes when its %s expires.", g.Worker, s.terms.Lease)
	return d.awaitNextHold(ctx, g.Worker, at)
}

// awaitNextHold waits for the next grant after at, and shows how long it took.
func (d *demonstration) awaitNextHold(ctx context.Context, name string, at stamp.Stamp) error {
	s := d.state
	var next check.Grant
	err := s.until(ctx, "the queue moves on after "+name, func() (ok bool) {
		next, ok = check.After(s.grants, at)
		return ok
	})
	if err != nil {
		return err
	}
	s.say(screen.Good, "The queue moved on after %.1f s: %s, the next waiter, holds.", next.At.Sub(at).Seconds(), next.Worker)
	return nil
}

// replace starts a new worker in place of the killed one.
func (d *demonstration) replace(ctx context.Context) error {
	if err := sleep(ctx, 600*time.Millisecond); err != nil {
		return err
	}
	if err := d.startWorker("fay"); err != nil {
		return err
	}
	d.state.say(screen.Plain, "fay replaces the killed worker, at the end of the queue.")
	if err := d.state.until(ctx, "the replacement gets its session", d.allReady); err != nil {
		return err
	}
	return sleep(ctx, 1300*time.Millisecond)
}

// stop stops the careless worker while it holds, until the next holder has used the ledger.
func (d *demonstration) stop(ctx context.Context) error {
	g, err := d.pickHolder(ctx, "stopped", func(name string) bool { return name == careless })
	if err != nil {
		return err
	}
	p, s := d.process(g.Worker), d.state
	at := stamp.Now()
	s.change(func() {
		s.stop = check.Stop{Worker: g.Worker, PID: g.PID, Token: g.Token, At: at}
		w := s.workers[g.Worker]
		w.state, w.since = view.Stopped, at
	})
	if err := p.wrapSignal(p.Pause()); err != nil {
		return err
	}
	s.change(func() {
		now := stamp.Now()
		s.stop.Stopped = now
		i := s.byToken[g.Token]
		if s.grants[i].How == check.Open {
			s.grants[i].How, s.grants[i].End = check.Stopped, now
		}
	})
	s.say(screen.Warn, "kill -STOP %s, which holds: it cannot notice that time passes.", g.Worker)
	if err := d.awaitNextHold(ctx, g.Worker, at); err != nil {
		return err
	}
	return d.state.until(ctx, "the next holder uses the ledger", func() bool {
		return s.ledger.Highest() > g.Token
	})
}

// wake wakes the stopped worker, and ends its job: it writes without checking its hold.
func (d *demonstration) wake(ctx context.Context) error {
	s := d.state
	if err := sleep(ctx, 1200*time.Millisecond); err != nil {
		return err
	}
	s.say(screen.Plain, "%s still believes that it holds. It will be woken, and write.", careless)
	if err := sleep(ctx, 1200*time.Millisecond); err != nil {
		return err
	}
	token := s.stop.Token
	s.change(func() {
		s.workers[careless].state, s.stop.Woken = view.Waits, stamp.Now()
	})
	p := d.process(careless)
	p.send(wire.Order{End: true})
	if err := p.wrapSignal(p.Resume()); err != nil {
		return err
	}
	var late refusal
	err := s.until(ctx, "the late write is refused by the ledger", func() bool {
		all := s.ledger.Refused()
		i := slices.IndexFunc(all, func(r refusal) bool { return r.Write && r.Token == token })
		if i >= 0 {
			late = all[i]
		}
		return i >= 0
	})
	if err != nil {
		return err
	}
	s.say(screen.Good, "kill -CONT %s: it writes with token %d. REFUSED: the ledger saw %d.", careless, token, late.Highest)
	return sleep(ctx, 2*time.Second)
}

// runFast lets the workers run as fast as they can, to measure hand-offs. It takes less
// time on a machine so slow that the script's time is nearly up.
func (d *demonstration) runFast(ctx context.Context) error {
	s := d.state
	s.say(screen.Plain, "Now with jobs of about a millisecond, to measure the hand-off.")
	s.change(func() { s.quiet = true })
	before := len(s.history().Grants)
	d.orderAll(wire.Order{Work: quickJob})
	start := stamp.Now()
	span := 3500 * time.Millisecond
	end, ok := ctx.Deadline()
	if ok {
		span = min(span, max(time.Until(end)-time.Second, 0))
	}
	if err := sleep(ctx, span); err != nil {
		return err
	}
	turns := len(s.history().Grants) - before
	s.say(screen.Plain, "%d turns in %.1f s. All workers leave.", turns, stamp.Now().Sub(start).Seconds())
	return nil
}

// pickHolder gives an endless job to a suitable worker, announces the fault, and returns
// the worker's hold 0.9 s later. If the hold is lost by then, as may happen on a busy
// machine, pickHolder begins again, because a fault would then have no effect.
func (d *demonstration) pickHolder(ctx context.Context, fate string, fits func(name string) bool) (check.Grant, error) {
	for {
		g, err := d.giveEndlessJob(ctx, fits)
		if err != nil {
			return g, err
		}
		d.state.say(screen.Plain, "%s holds, with a long job. It is about to be %s.", g.Worker, fate)
		if err := sleep(ctx, 900*time.Millisecond); err != nil {
			return g, err
		}
		if d.state.isOpen(g) {
			return g, nil
		}
		d.process(g.Worker).send(wire.Order{End: true}) // a careless worker does not notice the loss
	}
}

// giveEndlessJob gives an endless job to a suitable worker. It returns the worker's hold
// when the worker has read the ledger, or has lost the hold. It chooses among the third
// and later entries: the second may be granted before the order arrives.
func (d *demonstration) giveEndlessJob(ctx context.Context, fits func(name string) bool) (check.Grant, error) {
	s := d.state
	var name string
	err := s.until(ctx, "a worker waits", func() bool {
		if len(s.queue) < 3 {
			return false
		}
		i := slices.IndexFunc(s.queue[2:], func(x queued) bool { return fits(x.meta.Label) })
		if i >= 0 {
			name = s.queue[2+i].meta.Label
		}
		return i >= 0
	})
	if err != nil {
		return check.Grant{}, err
	}
	d.process(name).send(wire.Order{Job: endlessJob})
	var g check.Grant
	err = s.until(ctx, name+" gets its turn", func() bool {
		g = s.newest(name)
		return s.jobs[g.Token] == endlessJob && (s.read[g.Token] || g.How != check.Open)
	})
	return g, err
}

// sleep sleeps for d, and returns an error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if !driver.Sleep(ctx, driver.SystemClock(), d) {
		return context.Cause(ctx)
	}
	return nil
}

// errTooLong is the cause when the demonstration has used up its time.
var errTooLong = errors.New("it took too long")
