package pgbackend

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/session/driver"
)

// period is the time between two renewals: several fit between one and the deadline.
func period(ttl time.Duration) time.Duration { return ttl / 5 }

// lag is how long after a renewal the next one is acknowledged, at most, while the server answers at
// once: a period, and half of one for a machine that is busy.
func lag(ttl time.Duration) time.Duration { return period(ttl) * 3 / 2 }

// renewals renew a session, one request at a time, on a connection that nothing else uses.
//
//	answer                      the renewal
//	one row, no warning         counts, from its sending
//	one row, and a warning      counts for nothing: no standby may have it
//	no row                      shows that the session is over: ended by another client, or another life
//	an error, or none in time   counts for nothing; the next one follows soon, on another connection
//
// Two renewals that are both carried out raise the version twice, which harms nothing.
type renewals struct{ s *pgSession }

// run renews the session until it is over. An attempt that is not answered costs its connection,
// and the next one follows on another.
func (r *renewals) run(ctx context.Context) {
	s := r.s
	timeout := min(max(s.cfg.TTL/4, 500*time.Millisecond), 5*time.Second)
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: period(s.cfg.TTL), Spread: true}
	var outage driver.Outage
	for wait := period(s.cfg.TTL); r.await(ctx, wait); {
		sent := s.backend.clock.Now()
		there, proof, err := r.send(ctx, timeout)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !there:
			_ = s.gone()
			return
		case err == nil && proof:
			s.cfg.Renewed(sent, s.cfg.TTL, lag(s.cfg.TTL))
			pause.Reset()
			wait = period(s.cfg.TTL)
			log, lasted := outage.Over(s.backend.clock.Now())
			if log {
				s.log.InfoContext(ctx, "postgres: the session is renewed again", "session", s.ID(), "after", lasted)
			}
		default:
			if err == nil {
				err = errUnproven
			}
			wait = pause.Next(s.backend.clock)
			log, since := outage.Failed(s.backend.clock.Now())
			if log {
				s.log.WarnContext(ctx, "postgres: the session was not renewed", "session", s.ID(), "error", err.Error(), "since", since)
			}
		}
	}
}

// errUnproven is the reason of a renewal that was committed and is no proof.
var errUnproven = errors.New("the server has not waited for its standbys")

// send sends one renewal, and reports whether the session is there and whether that is a proof.
func (r *renewals) send(ctx context.Context, timeout time.Duration) (there, proof bool, err error) {
	s := r.s
	proof, err = s.own.proves(func() error {
		ctx, stop := driver.WithTimeout(ctx, s.backend.clock, timeout)
		defer stop()
		conn, release, err := s.own.Acquire(ctx)
		if err != nil {
			return err
		}
		defer release()
		return call.Batch(ctx, conn, false, func(b *pgx.Batch) { b.Queue(s.texts.Renew, s.id) }, func(answer pgx.BatchResults) error {
			tag, err := answer.Exec()
			there = tag.RowsAffected() > 0
			return err
		})
	})
	return there, proof, err
}

// await waits for d, or until a renewal is wanted, and reports whether the session goes on.
func (r *renewals) await(ctx context.Context, d time.Duration) bool {
	due := make(chan struct{})
	stop := r.s.backend.clock.AfterFunc(d, func() { close(due) })
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-r.s.turn:
	}
	return ctx.Err() == nil
}
