package onpg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

// at is what a fault is aimed at.
type at = []trial.Target

// Breaks implements trial.Breaker.
func (s *Service) Breaks() []trial.Break {
	all := []trial.Break{
		{Name: "connections-reset", Spares: true, Inject: resetAll},
		{Name: "servers-killed", Least: 200 * time.Millisecond, Most: 4 * time.Second, Inject: s.kill, End: s.restart},
		{Name: "servers-stopped", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.pause, End: s.resume},
		{Name: "server-shut-down", Least: 100 * time.Millisecond, Most: 4 * time.Second, Inject: s.shutDown, End: s.restart},
		{Name: "backend-stopped", Spares: true, Least: time.Second, Most: 5 * time.Second, Inject: s.pauseBackend, End: s.resume},
		{Name: "backend-killed", Inject: s.killBackend, End: s.recovered},
		{Name: "entries-locked", Own: true, Spares: true, Least: time.Second, Most: 6 * time.Second, End: s.rollback, Inject: s.locks("select from fairlock.entry where queue = any($1::text[]) for update")},
		{Name: "members-locked", Own: true, Spares: true, Least: time.Second, Most: 6 * time.Second, End: s.rollback, Inject: s.locks("select from fairlock.member m where exists (select from fairlock.entry e where e.session = m.id and e.queue = any($1::text[])) for update")},
		{Name: "table-locked", Own: true, Spares: true, Least: time.Second, Most: 6 * time.Second, End: s.rollback, Inject: s.locks("lock table fairlock.entry in access exclusive mode")},
	}
	switch s.setup {
	case Direct:
		all = append(all,
			trial.Break{Name: "clock-ahead", Spares: true, Least: time.Second, Most: 5 * time.Second, Inject: s.setClock(time.Hour), End: s.trueClock},
			trial.Break{Name: "clock-back", Spares: true, Least: time.Second, Most: 5 * time.Second, Inject: s.setClock(-time.Hour), End: s.trueClock},
			trial.Break{Name: "too-many-connections", Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.refuseConnections, End: s.admitConnections},
			trial.Break{Name: "read-only", Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.setReadOnly, End: s.endReadOnly},
			trial.Break{Name: "server-disk-full", Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.fillDisk, End: s.freeDisk},
			trial.Break{Name: "servers-killed-ttl-15s", Spares: true, TTL: longTTL, Least: 200 * time.Millisecond, Most: 4 * time.Second, Before: s.trustFor(longTTL), Inject: s.kill, End: s.restart},
			trial.Break{Name: "servers-stopped-ttl-15s", Spares: true, TTL: longTTL, Least: time.Second, Most: 5 * time.Second, Before: s.trustFor(longTTL), Inject: s.pause, End: s.resume},
		)
	case Pooler, PoolerListen:
		all = append(all,
			trial.Break{Name: "pooler-killed", Least: 100 * time.Millisecond, Most: 4 * time.Second, Inject: s.killPooler, End: s.restartPooler},
			trial.Break{Name: "pooler-paused", Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.pausePooler, End: s.resumePooler},
			trial.Break{Name: "pooler-connections-killed", Spares: true, Inject: s.killPooled},
		)
	case Synchronous:
		all = append(all,
			trial.Break{Name: "standby-stopped", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.pauseStandby, End: s.resumeStandby},
			trial.Break{Name: "standby-killed", Least: 200 * time.Millisecond, Most: 4 * time.Second, Inject: s.killStandby, End: s.restartStandby},
			trial.Break{Name: "promotion", Forgets: true, Quarantine: maxTTL, Began: s.promotedAt, Before: s.trustFor(maxTTL), Inject: s.failOver, End: s.failedOver},
		)
	case Asynchronous:
		all = append(all,
			trial.Break{Name: "promotion", Forgets: true, Quarantine: maxTTL, Began: s.promotedAt, Before: s.trustFor(maxTTL), Inject: s.failOver, End: s.failedOver},
			trial.Break{Name: "two-primaries", Own: true, Forgets: true, Refuses: true, Quarantine: maxTTL, Began: s.promotedAt, Before: s.trustFor(maxTTL), Least: 500 * time.Millisecond, Most: 3 * time.Second, Inject: s.promoteBeside, End: s.endOld},
			trial.Break{Name: "promotion-of-a-lagging", Forgets: true, Cuts: true, Quarantine: maxTTL, Began: s.promotedAt, Before: s.lag(maxTTL), Inject: s.failOver, End: s.failedOver},
			trial.Break{Name: "promotion-of-a-lagging-ttl-15s", Forgets: true, Cuts: true, Quarantine: longTTL, Began: s.promotedAt, Before: s.lag(longTTL), Inject: s.failOver, End: s.failedOver},
		)
	}
	return all
}

func (s *Service) promotedAt() history.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// trustFor has the sessions that are opened from now on last for ttl, which becomes the greatest. A
// trial in which the servers forget has sessions that last as long as the quarantine: with a shorter
// TTL a holder has lost its session before a client could be granted too early.
func (s *Service) trustFor(ttl time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.setTTL(ttl)
		err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "update fairlock.meta set max_ttl_ms = $1", ttl.Milliseconds())
			return err
		})
		if err == nil && s.standby != nil {
			err = s.standby.CatchUp(ctx)
		}
		return err
	}
}

// lag is trustFor, and cuts the standby off from the primary: it learns nothing of the trials that
// follow.
func (s *Service) lag(ttl time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.trustFor(ttl)(ctx); err != nil {
			return err
		}
		return s.standby.CutOff(ctx)
	}
}

func (s *Service) failOver(ctx context.Context, _ *rand.Rand, _ at) error { return s.promote(ctx) }

// promoteBeside promotes the standby while the primary goes on, which every client reaches too. No
// client may open a session then: the first waiters try, because they have lost theirs. The other
// clients may go on with the old primary.
func (s *Service) promoteBeside(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.standby.Promote(ctx); err != nil {
		return err
	}
	for _, n := range clientsOf(all) {
		n.Reset()
	}
	for _, t := range all {
		if err := s.EndSession(ctx, t.Clients[1].Session()); err != nil {
			return err
		}
	}
	opened, err := pgbackend.Dial(ctx, s.direct(), &pgbackend.Options{Root: root, Session: s.options()}) //nolint:contextcheck // it has to be refused
	if err == nil {
		return errors.Join(errors.New("onpg: a session was opened beside two primaries"), opened.Close())
	}
	if !errors.Is(err, session.ErrRefused) {
		return fmt.Errorf("onpg: a session beside two primaries was not refused: %w", err)
	}
	return nil
}

// endOld ends the old primary, as an operator must.
func (s *Service) endOld(ctx context.Context) error {
	s.killPrimary()
	return s.failedOver(ctx)
}

func resetAll(_ context.Context, _ *rand.Rand, all at) error {
	for _, n := range clientsOf(all) {
		n.Reset()
	}
	return nil
}

func (s *Service) kill(context.Context, *rand.Rand, at) error {
	s.primary.Kill()
	return nil
}

func (s *Service) restart(ctx context.Context) error {
	s.setTTL(trial.TTL)
	return s.primary.Restart(ctx)
}

func (s *Service) pause(context.Context, *rand.Rand, at) error { return s.primary.Pause() }

func (s *Service) resume(context.Context) error {
	s.setTTL(trial.TTL)
	return s.primary.Resume()
}

func (s *Service) shutDown(ctx context.Context, _ *rand.Rand, _ at) error { return s.primary.Stop(ctx) }

// backends returns the processes that serve a client.
func (s *Service) backends(ctx context.Context, n *network) (pids []int, err error) {
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "select pid from pg_stat_activity where application_name = $1 order by pid", n.name)
		if err != nil {
			return err
		}
		pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
		if err == nil && len(pids) == 0 {
			err = fmt.Errorf("onpg: no backend serves %s", n.name)
		}
		return err
	})
	return pids, err
}

// pauseBackend stops one backend of the holder or of the first waiter, in every queue.
func (s *Service) pauseBackend(ctx context.Context, rng *rand.Rand, all at) error {
	for _, t := range all {
		pids, err := s.backends(ctx, networkOf(t.Clients[rng.IntN(2)]))
		if err == nil {
			err = s.primary.PauseProcess(pids[rng.IntN(len(pids))])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killBackend kills a backend: the server ends all others, and recovers as from a crash.
func (s *Service) killBackend(ctx context.Context, rng *rand.Rand, all at) error {
	pids, err := s.backends(ctx, networkOf(all[0].Clients[0]))
	if err != nil {
		return err
	}
	return s.primary.KillProcess(pids[rng.IntN(len(pids))])
}

// recovered waits until the server serves again.
func (s *Service) recovered(ctx context.Context) error {
	_, err := s.Leader(ctx)
	return err
}

// locks leaves a transaction idle that has locked rows.
func (s *Service) locks(sql string) func(context.Context, *rand.Rand, at) error {
	return func(ctx context.Context, _ *rand.Rand, all at) error {
		var queues []string
		for _, t := range all {
			queues = append(queues, prefix+t.Queue)
		}
		conn, err := s.primary.Connect(ctx)
		if err != nil {
			return err
		}
		s.unblock = conn.Close
		args := []any{queues}
		if sql[:4] == "lock" {
			args = nil
		}
		_, err = conn.Exec(ctx, "begin")
		if err == nil {
			_, err = conn.Exec(ctx, sql, args...)
		}
		return err
	}
}

// rollback ends the transaction.
func (s *Service) rollback(ctx context.Context) error {
	if s.unblock == nil {
		return errors.New("onpg: there is no transaction")
	}
	f := s.unblock
	s.unblock = nil
	return f(ctx)
}

func (s *Service) setClock(ahead time.Duration) func(context.Context, *rand.Rand, at) error {
	return func(ctx context.Context, _ *rand.Rand, _ at) error {
		if err := s.primary.SetClock(ahead); err != nil {
			return err
		}
		return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			var shown time.Time
			err := conn.QueryRow(ctx, "select clock_timestamp()").Scan(&shown)
			off := time.Until(shown) - ahead
			if err == nil && off.Abs() > time.Minute {
				err = fmt.Errorf("onpg: the clock of the server is %s off", time.Until(shown))
			}
			return err
		})
	}
}

func (s *Service) trueClock(context.Context) error { return s.primary.SetClock(0) }

// refuseConnections lets the clients make no connection (53300), and ends those that they have.
func (s *Service) refuseConnections(ctx context.Context, _ *rand.Rand, _ at) error {
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "alter role "+app+" connection limit 0")
		if err == nil {
			_, err = conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where usename = '"+app+"'")
		}
		return err
	})
}

func (s *Service) admitConnections(ctx context.Context) error {
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "alter role "+app+" connection limit -1")
		return err
	})
}

func (s *Service) setReadOnly(ctx context.Context, _ *rand.Rand, _ at) error {
	return s.primary.Set(ctx, "default_transaction_read_only", "on")
}

func (s *Service) endReadOnly(ctx context.Context) error {
	return s.primary.Reset(ctx, "default_transaction_read_only")
}

func (s *Service) killPooler(context.Context, *rand.Rand, at) error {
	s.pooler.Kill()
	return nil
}

func (s *Service) restartPooler(ctx context.Context) error { return s.pooler.Restart(ctx) }

func (s *Service) pausePooler(ctx context.Context, _ *rand.Rand, _ at) error {
	return s.pooler.Pause(ctx)
}

func (s *Service) resumePooler(ctx context.Context) error { return s.pooler.Resume(ctx) }

func (s *Service) killPooled(ctx context.Context, _ *rand.Rand, _ at) error {
	n, err := s.pooler.KillServerConnections(ctx)
	if err == nil && n == 0 {
		err = errors.New("onpg: the pooler had no connections")
	}
	return err
}

func (s *Service) pauseStandby(context.Context, *rand.Rand, at) error { return s.standby.Pause() }

func (s *Service) resumeStandby(context.Context) error { return s.standby.Resume() }

func (s *Service) killStandby(context.Context, *rand.Rand, at) error {
	s.standby.Kill()
	return nil
}

func (s *Service) restartStandby(ctx context.Context) error { return s.standby.Restart(ctx) }
