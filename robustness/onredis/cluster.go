package onredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/trial"
)

// clusterBreaks are those of the shard that has the root.
func (s *Service) clusterBreaks() []trial.Break {
	return []trial.Break{
		s.forgets(trial.Break{Name: "owner-killed", Late: s.cutReplicas, Undo: s.rejoin, Inject: s.killOwner, End: s.end1}),
		s.forgets(trial.Break{Name: "owner-restarted-empty", Inject: s.restartOwner}),
		s.forgets(trial.Break{Name: "owner-replaced", Inject: s.replaceOwner}),
		s.forgets(trial.Break{Name: "slot-moved", Inject: s.moveSlot}),
	}
}

// owned waits until the cluster has another owner of the root than the one before, if there was one.
func (s *Service) owned(ctx context.Context, old *redistest.Server) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	return retry(ctx, time.Second, func(ctx context.Context) error {
		owner, err := s.ownerNow(ctx, old)
		if err == nil {
			s.setPrimary(owner)
			err = s.verify(ctx, owner)
		}
		return err
	})
}

func (s *Service) ownerNow(ctx context.Context, old *redistest.Server) (*redistest.Server, error) {
	owner, err := s.cluster.Owner(ctx, prefix)
	switch {
	case err != nil:
		return nil, err
	case owner == old:
		return nil, errors.New("onredis: the root has the owner of before")
	}
	fields, err := owner.Info(ctx, "replication")
	if err == nil && fields["role"] != "master" {
		err = errors.New("onredis: the owner is no master yet")
	}
	return owner, err
}

func (s *Service) killOwner(ctx context.Context, _ *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old := s.master()
	s.begins()
	old.Kill()
	s.undo = func(ctx context.Context) error {
		old.HealReplicas()
		return old.Restart(ctx) // it finds that it was replaced
	}
	return s.owned(ctx, old)
}

// restartOwner has the owner come back empty before the others take it for down.
func (s *Service) restartOwner(ctx context.Context, _ *rand.Rand, _ at) error {
	s.begins()
	return errors.Join(s.master().Restart(ctx), s.owned(ctx, nil))
}

// replaceOwner has a replica take over in order, with all data.
func (s *Service) replaceOwner(ctx context.Context, rng *rand.Rand, all at) error {
	if err := s.note(ctx, all); err != nil {
		return err
	}
	old := s.master()
	all3, err := s.shard(ctx, old)
	if err != nil {
		return err
	}
	s.begins()
	if err := all3[rng.IntN(len(all3))].Do(ctx, "CLUSTER", "FAILOVER").Error(); err != nil {
		return err
	}
	return s.owned(ctx, old)
}

// shard returns the replicas of a master.
func (s *Service) shard(ctx context.Context, master *redistest.Server) (all []*redistest.Server, err error) {
	port := master.Addr()[strings.LastIndex(master.Addr(), ":")+1:]
	for _, n := range s.servers {
		fields, err := n.Info(ctx, "replication")
		if err != nil {
			return nil, err
		}
		if fields["role"] == "slave" && fields["master_port"] == port {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("onredis: the owner has no replica")
	}
	return all, nil
}

// moveSlot moves the root to another shard, while clients use it.
func (s *Service) moveSlot(ctx context.Context, rng *rand.Rand, _ at) error {
	old := s.master()
	var others []*redistest.Server
	for _, n := range s.servers {
		fields, err := n.Info(ctx, "replication")
		if err != nil {
			return err
		}
		if fields["role"] == "master" && n != old {
			others = append(others, n)
		}
	}
	s.begins()
	if err := s.cluster.Move(ctx, prefix, others[rng.IntN(len(others))]); err != nil {
		return err
	}
	return s.owned(ctx, old)
}

// clusterHealthy waits until all nodes serve and each replica has what its master has.
func (s *Service) clusterHealthy(ctx context.Context) error {
	for _, n := range s.servers {
		err := retry(ctx, 5*time.Second, func(ctx context.Context) error {
			text, err := n.Do(ctx, "CLUSTER", "INFO").ToString()
			if err == nil && !strings.Contains(text, "cluster_state:ok") {
				err = errors.New("onredis: the cluster is not served")
			}
			if err != nil {
				return err
			}
			fields, err := n.Info(ctx, "replication")
			switch {
			case err != nil:
				return err
			case fields["role"] == "slave":
				return n.CatchUp(ctx)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("onredis: cluster: %w", err)
		}
	}
	all, err := s.shard(ctx, s.master())
	if err == nil && len(all) != 2 {
		err = fmt.Errorf("onredis: the owner has %d replicas", len(all))
	}
	return err
}
