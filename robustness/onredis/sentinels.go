package onredis

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/trial"
)

// sentinelBreaks are those of a master with two replicas that Sentinels watch.
func (s *Service) sentinelBreaks() []trial.Break {
	return []trial.Break{
		s.forgets(trial.Break{Name: "master-killed", Late: s.cutReplicas, Undo: s.rejoin, Inject: s.killWatched, End: s.end1}),
		s.forgets(trial.Break{Name: "failover-asked", Splits: true, Inject: s.askFailover}),
		s.forgets(trial.Break{Name: "master-stopped", Late: s.cutReplicas, Undo: s.rejoin, Splits: true, Least: time.Second, Most: 4 * time.Second, Inject: s.stopWatched, End: s.end1}),
	}
}

func (s *Service) killWatched(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old := s.master()
	s.begins()
	old.Kill()
	next, err := s.failedOver(ctx, old)
	s.undo = func(ctx context.Context) error {
		old.HealReplicas()
		err := old.Restart(ctx)
		if err == nil && next != nil {
			err = old.Follow(ctx, next)
		}
		return err
	}
	return err
}

// failedOver waits until the Sentinels have replaced a master.
func (s *Service) failedOver(ctx context.Context, old *redistest.Server) (*redistest.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	next, err := s.sentinels.AwaitFailover(ctx, old)
	if err != nil {
		return nil, err
	}
	s.setPrimary(next)
	return next, s.verify(ctx, next)
}

func (s *Service) askFailover(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	s.begins()
	next, err := s.sentinels.Failover(ctx)
	if err != nil {
		return err
	}
	s.setPrimary(next)
	return s.verify(ctx, next)
}

// stopWatched stops the master until the Sentinels have replaced it. Then it goes on, until it is demoted.
func (s *Service) stopWatched(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old := s.master()
	s.begins()
	if err := old.Pause(); err != nil {
		return err
	}
	next, err := s.failedOver(ctx, old)
	s.undo = func(ctx context.Context) error {
		old.HealReplicas()
		if next == nil {
			return nil
		}
		return old.Follow(ctx, next)
	}
	return errors.Join(err, old.Resume())
}
