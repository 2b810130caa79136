package onredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/trial"
)

// at is what a fault is aimed at.
type at = []trial.Target

// Breaks implements trial.Breaker.
func (s *Service) Breaks() []trial.Break {
	if s.setup == Five {
		return s.redlockBreaks()
	}
	all := []trial.Break{
		{Name: "connections-reset", Spares: true, Inject: resetAll},
		{Name: "subscribers-cut", Spares: true, Least: 500 * time.Millisecond, Most: 3 * time.Second, Inject: s.cutSubscribers, End: s.end1},
		{Name: "scripts-flushed", Spares: true, Inject: s.command("SCRIPT", "FLUSH")},
		{Name: "rights-taken", Refuses: true, Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.takeRights, End: s.giveRights},
		{Name: "out-of-memory", Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.command("CONFIG", "SET", "maxmemory", "1"), End: s.giveMemory},
		s.forgets(trial.Break{Name: "flushed", Inject: s.flush}),
		s.forgets(trial.Break{Name: "flushed-twice", Inject: s.flushTwice}),
	}
	switch s.setup {
	case Alone:
		all = append(all,
			trial.Break{Name: "server-stopped", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.pause, End: s.resume},
			s.forgets(trial.Break{Name: "server-killed-empty", Least: 100 * time.Millisecond, Most: 3 * time.Second, Inject: s.kill, End: s.restart}),
			trial.Break{Name: "clock-ahead", Spares: true, Least: time.Second, Most: 5 * time.Second, Inject: s.setClock(time.Hour), End: s.trueClock},
			trial.Break{Name: "clock-back", Spares: true, Least: time.Second, Most: 5 * time.Second, Inject: s.setClock(-time.Hour), End: s.trueClock},
		)
	case Logged:
		all = append(all,
			trial.Break{Name: "server-stopped", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.pause, End: s.resume},
			s.forgets(trial.Break{Name: "server-killed-with-data", Least: 100 * time.Millisecond, Most: 3 * time.Second, Inject: s.kill, End: s.restart}),
			s.forgets(trial.Break{Name: "server-shut-down", Least: 100 * time.Millisecond, Most: 3 * time.Second, Inject: s.shutDown, End: s.restart}),
		)
	case Replicas:
		all = append(all, s.replicaBreaks()...)
	case Sentinels:
		all = append(all, s.sentinelBreaks()...)
	case Cluster:
		all = append(all, s.clusterBreaks()...)
	}
	return all
}

// forgets completes a fault after which the servers have a new life.
func (s *Service) forgets(b trial.Break) trial.Break {
	b.Forgets, b.Quarantine, b.Began, b.TTL = true, maxTTL, s.begunAt, maxTTL
	b.Before = func(context.Context) error {
		s.setTTL(maxTTL)
		return nil
	}
	end := b.End
	b.End = func(ctx context.Context) error {
		s.setTTL(trial.TTL)
		if end == nil {
			return nil
		}
		return end(ctx)
	}
	return b
}

func resetAll(_ context.Context, _ *rand.Rand, all at) error {
	for _, t := range all {
		for _, c := range t.Clients {
			networkOf(c).Reset()
		}
	}
	return nil
}

// command is a fault that is a command of the operator.
func (s *Service) command(words ...string) func(context.Context, *rand.Rand, at) error {
	return func(ctx context.Context, _ *rand.Rand, _ at) error {
		return s.do(ctx, func(ctx context.Context, c rueidis.Client) error {
			return c.Do(ctx, c.B().Arbitrary(words...).Build()).Error()
		})
	}
}

// everywhere runs a command on all servers that run.
func (s *Service) everywhere(ctx context.Context, words ...string) error {
	for _, server := range s.servers {
		err := retry(ctx, attemptTimeout, func(ctx context.Context) error { return server.Do(ctx, words...).Error() })
		if err != nil {
			return fmt.Errorf("onredis: %q: %w", words, err)
		}
	}
	return nil
}

// end1 ends a fault that has left a function for that.
func (s *Service) end1(ctx context.Context) error {
	if s.undo == nil {
		return errors.New("onredis: there is no fault")
	}
	f := s.undo
	s.undo = nil
	return f(ctx)
}

// cutSubscribers ends the connections for notices, again and again.
func (s *Service) cutSubscribers(ctx context.Context, _ *rand.Rand, _ at) error {
	cut := s.command("CLIENT", "KILL", "TYPE", "pubsub")
	if err := cut(ctx, nil, nil); err != nil {
		return err
	}
	cutting, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { // ends with stop
		for {
			wait(cutting, 50*time.Millisecond)
			if cutting.Err() != nil {
				done <- nil
				return
			}
			if err := cut(cutting, nil, nil); err != nil && cutting.Err() == nil {
				done <- err
				return
			}
		}
	}()
	s.undo = func(context.Context) error {
		stop()
		return <-done
	}
	return nil
}

// takeRights lets the clients run no script any more, on no server.
func (s *Service) takeRights(ctx context.Context, _ *rand.Rand, _ at) error {
	return s.everywhere(ctx, "ACL", "SETUSER", app, "-eval", "-evalsha")
}

func (s *Service) giveRights(ctx context.Context) error {
	return s.everywhere(ctx, "ACL", "SETUSER", app, "+@all")
}

func (s *Service) giveMemory(ctx context.Context) error {
	return s.command("CONFIG", "SET", "maxmemory", "0")(ctx, nil, nil)
}

// flush deletes all data. The servers have the life of before.
func (s *Service) flush(ctx context.Context, _ *rand.Rand, _ at) error {
	s.begins()
	return s.command("FLUSHALL")(ctx, nil, nil)
}

// flushTwice has the second time at any moment of the quarantine of the first, or soon after it.
func (s *Service) flushTwice(ctx context.Context, rng *rand.Rand, _ at) error {
	if err := s.flush(ctx, nil, nil); err != nil {
		return err
	}
	wait(ctx, time.Duration(rng.Int64N(int64(maxTTL+time.Second))))
	return s.flush(ctx, nil, nil)
}

func (s *Service) kill(context.Context, *rand.Rand, at) error {
	s.begins()
	s.master().Kill()
	return nil
}

func (s *Service) restart(ctx context.Context) error { return s.master().Restart(ctx) }

func (s *Service) pause(context.Context, *rand.Rand, at) error { return s.master().Pause() }

func (s *Service) resume(context.Context) error { return s.master().Resume() }

func (s *Service) shutDown(ctx context.Context, _ *rand.Rand, _ at) error {
	s.begins()
	return s.master().Stop(ctx)
}

func (s *Service) setClock(ahead time.Duration) func(context.Context, *rand.Rand, at) error {
	return func(ctx context.Context, _ *rand.Rand, _ at) error { return s.shiftClock(ctx, s.master(), ahead) }
}

// shiftClock sets the clock of a server, and checks what it shows.
func (s *Service) shiftClock(ctx context.Context, server *redistest.Server, ahead time.Duration) error {
	if err := server.SetClock(ahead); err != nil {
		return err
	}
	shown, err := server.Do(ctx, "TIME").AsStrSlice()
	if err != nil {
		return err
	}
	var seconds int64
	if _, err := fmt.Sscan(shown[0], &seconds); err != nil {
		return err
	}
	off := time.Until(time.Unix(seconds, 0)) - ahead
	if off.Abs() > time.Minute {
		return fmt.Errorf("onredis: the clock of the server is %s off", off)
	}
	return nil
}

func (s *Service) trueClock(context.Context) error { return s.master().SetClock(0) }

// redlockBreaks are for five servers of which two do not answer while a holder acquires, as in a network that
// is cut for a moment. Then they answer, and one of the three that did fails.
func (s *Service) redlockBreaks() []trial.Break {
	return []trial.Break{
		{Name: "one-of-five-killed-empty", Late: s.pauseTwo, Least: 100 * time.Millisecond, Most: time.Second, Inject: s.killOne},
		{Name: "one-of-five-clock-ahead", Late: s.pauseTwo, Least: 100 * time.Millisecond, Most: time.Second, Inject: s.aheadOne, End: func(context.Context) error { return s.servers[2].SetClock(0) }},
	}
}

func (s *Service) pauseTwo(context.Context) error {
	return errors.Join(s.servers[3].Pause(), s.servers[4].Pause())
}

func (s *Service) resumeTwo() error {
	return errors.Join(s.servers[3].Resume(), s.servers[4].Resume())
}

func (s *Service) killOne(ctx context.Context, _ *rand.Rand, _ at) error {
	return errors.Join(s.resumeTwo(), s.servers[2].Restart(ctx))
}

func (s *Service) aheadOne(ctx context.Context, _ *rand.Rand, _ at) error {
	return errors.Join(s.resumeTwo(), s.shiftClock(ctx, s.servers[2], time.Hour))
}
