package onredis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/trial"
)

// settle bounds the time for what takes a second or two on an idle machine.
const settle = 60 * time.Second

// replicaBreaks are those of a master with two replicas which an operator promotes. The holder and the others
// come when the replica that is promoted is cut off from the master, so it has nothing of them.
func (s *Service) replicaBreaks() []trial.Break {
	// A session of the new master is opened after the quarantine, and a moment later the lock is granted.
	split := func(b trial.Break) trial.Break {
		b.Splits, b.Least, b.Most, b.End = true, maxTTL+3*time.Second, maxTTL+4500*time.Millisecond, s.unite
		return s.forgets(b)
	}
	return []trial.Break{
		{Name: "server-stopped", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.pause, End: s.resume},
		{Name: "one-replica-cut", Spares: true, Least: 500 * time.Millisecond, Most: 4 * time.Second, Inject: s.cutOne, End: s.rejoin},
		{Name: "both-replicas-cut", Least: 500 * time.Millisecond, Most: 5 * time.Second, Inject: s.cutBoth, End: s.rejoin},
		s.forgets(trial.Break{Name: "promotion", Late: s.cutReplicas, Undo: s.rejoin, Inject: s.promote, End: s.demoteOld}),
		split(trial.Break{Name: "split-third-moves-early", Late: s.cutReplicas, Undo: s.rejoin, Inject: s.splitEarly}),
		split(trial.Break{Name: "split-third-moves-late", Late: s.cutNext, Undo: s.rejoin, Inject: s.splitLate}),
		split(trial.Break{Name: "split-third-moves-last", Late: s.cutNext, Undo: s.rejoin, Inject: s.splitLast}),
		split(trial.Break{Name: "stopped-and-replaced", Late: s.cutReplicas, Undo: s.rejoin, Inject: s.replaceStopped}),
		split(trial.Break{Name: GoesBack, Beyond: true, Late: s.cutNext, Undo: s.rejoin, Inject: s.goBack}),
	}
}

// cutReplicas cuts all replicas off from the master. Sessions last until their trust windows end.
func (s *Service) cutReplicas(context.Context) error {
	s.master().CutReplicas()
	return nil
}

// cutNext cuts the replica off that will be promoted; the other one acknowledges renewals.
func (s *Service) cutNext(context.Context) error { return s.replicas()[0].CutOff() }

func (s *Service) cutOne(_ context.Context, rng *rand.Rand, _ at) error {
	return s.replicas()[rng.IntN(2)].CutOff()
}

func (s *Service) cutBoth(ctx context.Context, _ *rand.Rand, _ at) error { return s.cutReplicas(ctx) }

func (s *Service) rejoin(context.Context) error {
	s.master().HealReplicas()
	return nil
}

// note reads the entries of all queues, before a failover.
func (s *Service) note(ctx context.Context, all at) error {
	held := map[string][]string{}
	for _, t := range all {
		entries, err := s.Entries(ctx, trial.Ours, t.Queue)
		if err != nil {
			return err
		}
		held[t.Queue] = entries
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.forgot = held, map[string]bool{}
	return nil
}

// verify notes the queues of which the new master does not have the first entry. It is called before the
// data can be blessed: what is deleted then was not lost.
func (s *Service) verify(ctx context.Context, next *redistest.Server) error {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	for queue, before := range held {
		c, err := s.admin(ctx, next)
		if err != nil {
			return err
		}
		after, err := eval(ctx, c, entriesScript, queue).AsStrSlice()
		if err != nil {
			return err
		}
		if len(before) > 0 && after[0] == "0" && !slices.Contains(after[1:], before[0]) {
			s.mu.Lock()
			s.forgot[queue] = true
			s.mu.Unlock()
		}
	}
	return nil
}

// promote kills the master. One replica is promoted, and the other one follows it.
func (s *Service) promote(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old, next, third := s.master(), s.replicas()[0], s.replicas()[1]
	s.begins()
	old.Kill()
	err := errors.Join(next.Promote(ctx), s.verify(ctx, next), third.Follow(ctx, next))
	s.replaced(old, next)
	return err
}

// replaced takes in that a master was replaced.
func (s *Service) replaced(old, next *redistest.Server) {
	s.setPrimary(next)
	s.undo = func(ctx context.Context) error {
		if err := old.Restart(ctx); err != nil {
			return err
		}
		return old.Follow(ctx, next)
	}
}

func (s *Service) demoteOld(ctx context.Context) error { return s.end1(ctx) }

// sides lets the holder and one other client of each queue reach only the old master, and the third client
// all servers but that.
func (s *Service) sides(all at, old *redistest.Server) {
	for i, t := range all {
		for j, c := range t.Clients {
			n := networkOf(c)
			if j == 0 || j == 1+i%2 {
				for _, server := range s.servers {
					if server != old {
						n.hide(server)
					}
				}
			} else {
				n.hide(old)
			}
		}
	}
}

func (s *Service) oneSide(all at) {
	for _, t := range all {
		for _, c := range t.Clients {
			for _, server := range s.servers {
				networkOf(c).show(server)
			}
		}
	}
}

// split promotes a replica while the master goes on for some clients.
func (s *Service) split(ctx context.Context, all at) (old, next, third *redistest.Server, err error) {
	if err := s.note(ctx, all); err != nil {
		return nil, nil, nil, err
	}
	old, next, third = s.master(), s.replicas()[0], s.replicas()[1]
	s.sides(all, old)
	s.begins()
	err = errors.Join(next.Promote(ctx), s.verify(ctx, next))
	s.setPrimary(next)
	s.undo = func(ctx context.Context) error {
		err := errors.Join(old.Follow(ctx, next), third.Follow(ctx, next))
		s.oneSide(all)
		old.HealReplicas()
		return err
	}
	return old, next, third, err
}

func (s *Service) splitEarly(ctx context.Context, _ *rand.Rand, all at) error {
	_, next, third, err := s.split(ctx, all)
	if err != nil {
		return err
	}
	return third.Follow(ctx, next)
}

// splitLate has the third server follow the old master for half a quarantine more, at least, so that a count
// from the first sight of the new master would end too early.
func (s *Service) splitLate(ctx context.Context, rng *rand.Rand, all at) error {
	_, next, third, err := s.split(ctx, all)
	if err != nil {
		return err
	}
	wait(ctx, maxTTL/2+time.Duration(rng.Int64N(int64(maxTTL/2+time.Second))))
	return third.Follow(ctx, next)
}

// splitLast has the third server follow the old master until more than a quarantine has passed since a client
// claimed the new one. A client that counts from that claim, which no other server has, is granted while the
// holder trusts a renewal that the third server has acknowledged last.
func (s *Service) splitLast(ctx context.Context, _ *rand.Rand, all at) error {
	_, next, third, err := s.split(ctx, all)
	if err != nil {
		return err
	}
	if err := s.claimed(ctx, next); err != nil {
		return err
	}
	wait(ctx, maxTTL+time.Second)
	return third.Follow(ctx, next)
}

// claimed waits until a client has claimed the data of a server.
func (s *Service) claimed(ctx context.Context, server *redistest.Server) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	return retry(ctx, attemptTimeout, func(ctx context.Context) error {
		return server.Do(ctx, "HGET", prefix+"meta", "claim").Error() // without one the answer is nil, which is an error
	})
}

// GoesBack is the fault that no lock on Redis survives: the third server follows the new master, acknowledges
// a claim there, and then goes back to the old one, where it acknowledges renewals.
const GoesBack = "third-goes-back"

func (s *Service) goBack(ctx context.Context, _ *rand.Rand, all at) error {
	old, next, third, err := s.split(ctx, all)
	if err != nil {
		return err
	}
	if err := third.Follow(ctx, next); err != nil {
		return err
	}
	wait(ctx, time.Second) // the claim is acknowledged; the holder still trusts
	if err := third.Follow(ctx, old); err != nil {
		return err
	}
	wait(ctx, maxTTL-time.Second)
	return third.Follow(ctx, next)
}

// replaceStopped has the master stop while it is replaced, and go on when the others have waited.
func (s *Service) replaceStopped(ctx context.Context, rng *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old, next, third := s.master(), s.replicas()[0], s.replicas()[1]
	if err := old.Pause(); err != nil {
		return err
	}
	s.begins()
	err := errors.Join(next.Promote(ctx), s.verify(ctx, next), third.Follow(ctx, next))
	s.setPrimary(next)
	s.undo = func(ctx context.Context) error {
		err := old.Follow(ctx, next)
		old.HealReplicas()
		return err
	}
	wait(ctx, time.Duration(rng.Int64N(int64(maxTTL+time.Second))))
	return errors.Join(err, old.Resume())
}

// unite ends a split: the old master follows the new one.
func (s *Service) unite(ctx context.Context) error { return s.end1(ctx) }
