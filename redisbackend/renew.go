package redisbackend

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// lookTime is the longest time between two looks at the sessions that a client waits for. A renewal that was
// made just after a look is seen by the next one; so an end comes later than the TTL by that at most.
const lookTime = time.Second

// period is the time between two renewals: several fit between one and the deadline.
func period(ttl time.Duration) time.Duration { return ttl / 5 }

// lag is how long after a renewal the next one is acknowledged, at most, while the server answers at
// once: a period, and half of one for a machine that is busy.
func lag(ttl time.Duration) time.Duration { return period(ttl) * 3 / 2 }

// renewals renew a session, one request at a time, on a connection that nothing else uses. Each is also the
// look at the sessions of others.
//
//	answer                               the renewal
//	OK, and a majority has it            counts, from its sending
//	OK, and a majority may not have it   counts for nothing: an older server may have answered
//	LIFE, OVER                           shows that the session is over
//	an error, or none in time            counts for nothing; the next one follows soon, perhaps elsewhere
//
// Two renewals that are both carried out raise the version twice, which harms nothing.
type renewals struct {
	s    *redisSession
	send *call.Sender
}

// request is a renewal, or makes the session.
func (r *renewals) request(op fault.Op) call.Request {
	s := r.s
	return call.Request{
		Op: op, Script: &s.scripts.Renew, Acks: s.backend.opts.acks(), Within: min(proofTime, max(period(s.cfg.TTL), minTTL/5)),
		Args: func(int) script.Args {
			a := script.Args{s.life, s.id}
			a.Flag(op == fault.Open)
			a.Int(s.backend.seen())
			a = append(a, s.hub.Ask()...)
			a.Int(0)
			return a
		},
	}
}

// open makes the session. It repeats that until a majority has it.
func (r *renewals) open(ctx context.Context) error {
	s := r.s
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: period(s.cfg.TTL), Spread: true}
	var before error // of the attempt before
	for {
		a, err := r.send.Do(ctx, r.request(fault.Open))
		switch {
		case err != nil:
			return errors.Join(err, before)
		case a.Text(0) != script.OK:
			return errLife
		case a.Proven:
			s.cfg.Renewed(a.Sent, s.cfg.TTL, lag(s.cfg.TTL))
			s.hub.Saw(s.backend.clock.Now(), a.List(1))
			s.backend.saw(a.Int(3))
			return nil
		}
		r.send.Leave(a)
		before = errUnproven
		if !pause.Sleep(ctx, s.backend.clock) {
			return errors.Join(driver.ContextError(ctx), before)
		}
	}
}

// errUnproven is the reason of a renewal that was answered and is no proof.
var errUnproven = errors.New("no majority of the nodes has acknowledged it")

// run renews the session until it is over.
func (r *renewals) run(ctx context.Context) {
	s, clock := r.s, r.s.backend.clock
	timeout := min(max(s.cfg.TTL/4, 500*time.Millisecond), 5*time.Second)
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: period(s.cfg.TTL), Spread: true}
	var outage driver.Outage
	for wait := r.pause(); r.await(ctx, wait); {
		request := r.request(fault.Renew)
		a, err := r.send.Once(ctx, request, request.Args(0), timeout)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && a.Text(0) == script.Life:
			_ = s.over(errLife)
			return
		case err == nil && a.Text(0) == script.Over:
			_ = s.over(errNoSession)
			return
		case err == nil && a.Proven:
			s.cfg.Renewed(a.Sent, s.cfg.TTL, lag(s.cfg.TTL))
			s.hub.Saw(clock.Now(), a.List(1))
			s.backend.saw(a.Int(3))
			pause.Reset()
			wait = r.pause()
			log, lasted := outage.Over(clock.Now())
			if log {
				s.log.InfoContext(ctx, "redis: the session is renewed again", "session", s.id, "after", lasted)
			}
		default:
			if err == nil {
				s.hub.Saw(clock.Now(), a.List(1))
				err = errUnproven
				r.send.Leave(a)
			}
			wait = pause.Next(clock)
			log, since := outage.Failed(clock.Now())
			if log {
				s.log.WarnContext(ctx, "redis: the session was not renewed", "session", s.id, "error", err.Error(), "since", since)
			}
		}
	}
}

// pause is the time until the next renewal: one that is also the look of a client that waits comes sooner.
func (r *renewals) pause() time.Duration {
	if r.s.hub.Waiting() {
		return min(period(r.s.cfg.TTL), lookTime)
	}
	return period(r.s.cfg.TTL)
}

// await waits for d, or until a renewal is wanted, and reports whether the session goes on.
func (r *renewals) await(ctx context.Context, d time.Duration) bool {
	until := r.s.backend.clock.Now().Add(d)
	for {
		due := make(chan struct{})
		stop := r.s.backend.clock.AfterFunc(d, func() { close(due) })
		select {
		case <-ctx.Done():
			stop()
			return false
		case <-due:
			return ctx.Err() == nil
		case <-r.s.turn:
			stop()
			return ctx.Err() == nil
		case <-r.s.sight: // a client that begins to wait looks soon
			stop()
			d = max(min(until.Sub(r.s.backend.clock.Now()), lookTime), 0)
		}
	}
}
