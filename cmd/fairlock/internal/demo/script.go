package demo

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	proc "github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/session/driver"
)

// What the demonstration is made of. The TTL is the least there is: with the
// usual 15 s everybody would wait for the dead that long.
const (
	lockName = "ledger"
	ttl      = 2 * time.Second

	byHand   = 320 * time.Millisecond // a job that a person can follow
	quick    = time.Millisecond       // a job that only the figures can follow
	expected = 20 * time.Second

	// It ends within a minute, whatever happens. Counted from its beginning, these
	// are the latest ends of the script, the workers and the audit. A busy
	// machine may need them; usually each part ends long before.
	script   = 50 * time.Second
	farewell = 54 * time.Second
	audit    = 60 * time.Second

	// hurry is how long workers may take to leave after ^C.
	hurry = 700 * time.Millisecond
)

// endless is the job during which a fault happens. Only the fault ends it, or an
// order: however slow the machine is, the fault does not come after the job.
const endless = time.Hour

// careless is the worker that never looks whether it still holds.
const careless = "dan"

// acts is the demonstration from beginning to end, told in order. It returns
// an error if something that it waits for does not happen.
func (d *director) acts(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		d.open, d.turns, d.kill, d.replace, d.stop, d.wake, d.race,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open brings five workers on the stage.
func (d *director) open(ctx context.Context) error {
	d.stage.say(screen.Plain, "Five processes start. Each opens a session on %s, TTL %s.", d.on.terms.Service, ttl)
	for _, name := range []string{"ada", "bob", "cleo", careless, "eve"} {
		if err := d.hire(name); err != nil {
			return err
		}
	}
	return d.stage.until(ctx, "all workers get their sessions", d.everybody)
}

// everybody says that all workers are ready. The caller holds stage.mu.
func (d *director) everybody() bool {
	for _, a := range d.stage.cast {
		if !a.ready {
			return false
		}
	}
	return true
}

// turns lets them take turns for a while.
func (d *director) turns(ctx context.Context) error {
	d.stage.say(screen.Plain, "Five processes take turns: first come, first served.")
	return rest(ctx, 3*time.Second)
}

// kill kills a worker while it holds.
func (d *director) kill(ctx context.Context) error {
	g, err := d.seize(ctx, "killed", func(name string) bool { return name != careless })
	if err != nil {
		return err
	}
	p, s := d.process(g.Worker), d.stage
	at := stamp.Now()
	s.change(func() {
		s.kill = check.Kill{Worker: g.Worker, PID: g.PID, Token: g.Token, At: at}
		a := s.cast[g.Worker]
		a.state, a.since = view.Killed, at
	})
	if err := p.named(p.Signal(os.Kill)); err != nil {
		return err
	}
	<-p.gone // the kernel does this at once
	s.change(func() {
		now := stamp.Now()
		if proc.Killed(p.err) {
			s.kill.Reaped = now
		}
		s.kill.Present = s.goneAt[g.Token] == 0 || s.goneAt[g.Token] > at
		i := s.byToken[g.Token]
		if s.grants[i].How == check.Open {
			s.grants[i].How, s.grants[i].End = check.Killed, now
		}
	})
	s.say(screen.Bad, "kill -9 %s, which holds. Its place goes when its %s runs out.", g.Worker, s.terms.Lease)
	return d.movedOn(ctx, g.Worker, at)
}

// movedOn waits until somebody holds again, and tells how long that took.
func (d *director) movedOn(ctx context.Context, who string, at stamp.Stamp) error {
	s := d.stage
	var next check.Grant
	err := s.until(ctx, "the queue moves on after "+who, func() (ok bool) {
		next, ok = check.After(s.grants, at)
		return ok
	})
	if err != nil {
		return err
	}
	s.say(screen.Good, "The line moved on after %.1f s: %s, who was next, holds.", next.At.Sub(at).Seconds(), next.Worker)
	return nil
}

// replace brings a fresh worker in for the dead one.
func (d *director) replace(ctx context.Context) error {
	if err := rest(ctx, 600*time.Millisecond); err != nil {
		return err
	}
	if err := d.hire("fay"); err != nil {
		return err
	}
	d.stage.say(screen.Plain, "fay replaces the dead worker, at the end of the queue.")
	if err := d.stage.until(ctx, "the replacement gets its session", d.everybody); err != nil {
		return err
	}
	return rest(ctx, 1300*time.Millisecond)
}

// stop stops the careless worker while it holds, until the line has moved on.
func (d *director) stop(ctx context.Context) error {
	g, err := d.seize(ctx, "stopped", func(name string) bool { return name == careless })
	if err != nil {
		return err
	}
	p, s := d.process(g.Worker), d.stage
	at := stamp.Now()
	s.change(func() {
		s.stop = check.Stop{Worker: g.Worker, PID: g.PID, Token: g.Token, At: at}
		a := s.cast[g.Worker]
		a.state, a.since = view.Stopped, at
	})
	if err := p.named(p.Pause()); err != nil {
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
	if err := d.movedOn(ctx, g.Worker, at); err != nil {
		return err
	}
	return d.stage.until(ctx, "the next holder touches the ledger", func() bool {
		return s.ledger.Highest() > g.Token
	})
}

// wake wakes the stopped worker, whose job has ended meanwhile: it writes without
// looking.
func (d *director) wake(ctx context.Context) error {
	s := d.stage
	if err := rest(ctx, 1200*time.Millisecond); err != nil {
		return err
	}
	s.say(screen.Plain, "%s still believes that it holds. It will be woken, and write.", careless)
	if err := rest(ctx, 1200*time.Millisecond); err != nil {
		return err
	}
	token := s.stop.Token
	s.change(func() {
		s.cast[careless].state, s.stop.Woken = view.Waits, stamp.Now()
	})
	p := d.process(careless)
	p.tell(wire.Order{End: true})
	if err := p.named(p.Resume()); err != nil {
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
	return rest(ctx, 2*time.Second)
}

// race lets them go as fast as they can, for the figures. On a machine so slow
// that the time is nearly up, that is for less long.
func (d *director) race(ctx context.Context) error {
	s := d.stage
	s.say(screen.Plain, "Now with jobs of about a millisecond, to measure the hand-off.")
	s.change(func() { s.brief = true })
	before := len(s.history().Grants)
	d.all(wire.Order{Work: quick})
	start := stamp.Now()
	span := 3500 * time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		span = min(span, max(time.Until(end)-time.Second, 0))
	}
	if err := rest(ctx, span); err != nil {
		return err
	}
	turns := len(s.history().Grants) - before
	s.say(screen.Plain, "%d turns in %.1f s. Everybody leaves.", turns, stamp.Now().Sub(start).Seconds())
	return nil
}

// seize gives a worker that fits an endless job, announces what will happen to it,
// and returns its hold a moment later. If the hold is lost by then, as it may be
// on a busy machine, seize begins again: a fault would take nothing away.
func (d *director) seize(ctx context.Context, fate string, fits func(name string) bool) (check.Grant, error) {
	for {
		g, err := d.engage(ctx, fits)
		if err != nil {
			return g, err
		}
		d.stage.say(screen.Plain, "%s holds, with a long job. It is about to be %s.", g.Worker, fate)
		if err := rest(ctx, 900*time.Millisecond); err != nil {
			return g, err
		}
		if d.stage.isOpen(g) {
			return g, nil
		}
		d.process(g.Worker).tell(wire.Order{End: true}) // the careless one does not notice
	}
}

// engage gives a worker that fits an endless job, and returns its hold when the
// worker is at it and has read the ledger, or has lost it. The worker is one that
// will hold soon, but not next: that one may be granted before the order comes.
func (d *director) engage(ctx context.Context, fits func(name string) bool) (check.Grant, error) {
	s := d.stage
	var who string
	err := s.until(ctx, "a worker waits", func() bool {
		if len(s.line) < 3 {
			return false
		}
		i := slices.IndexFunc(s.line[2:], func(x spot) bool { return fits(x.meta.Label) })
		if i >= 0 {
			who = s.line[2+i].meta.Label
		}
		return i >= 0
	})
	if err != nil {
		return check.Grant{}, err
	}
	d.process(who).tell(wire.Order{Job: endless})
	var g check.Grant
	err = s.until(ctx, who+" gets its turn", func() bool {
		g = s.newest(who)
		return s.jobs[g.Token] == endless && (s.read[g.Token] || g.How != check.Open)
	})
	return g, err
}

// rest lets d pass.
func rest(ctx context.Context, d time.Duration) error {
	if !driver.Sleep(ctx, driver.SystemClock(), d) {
		return context.Cause(ctx)
	}
	return nil
}

// errTooLong is the end of a demonstration that does not come to one.
var errTooLong = errors.New("it took too long")
