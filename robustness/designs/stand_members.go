package designs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/designs/zklocks"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// startZooKeeper starts a stand on ZooKeeper.
func startZooKeeper(ctx context.Context, _ string) (Stand, error) {
	s, err := onzk.Start(ctx, onzk.Transports()[0])
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx, zklocks.Root); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &service{
		Service: s,
		open: func(d *Design, _ time.Duration) (trial.Client, error) { //nolint:contextcheck // it lives until Close
			n, err := s.Near()
			if err != nil {
				return nil, err
			}
			return d.onZooKeeper(n)
		},
		target: s.Target,
		breaks: memberBreaks(s),
	}, nil
}

// startEtcd starts a stand on etcd.
func startEtcd(ctx context.Context, _ string) (Stand, error) {
	s, err := onetcd.Start(ctx)
	if err != nil {
		return nil, err
	}
	return &service{Service: s, breaks: memberBreaks(s)}, nil
}

// memberBreaks are the faults at three servers that elect a leader.
func memberBreaks(s trial.Service) func(fault string) *trial.Break {
	killed := []int{}
	kill := func(members ...int) error {
		for _, i := range members {
			killed = append(killed, i)
			if err := s.Members()[i].Kill(); err != nil {
				return err
			}
		}
		return nil
	}
	all := map[string]*trial.Break{
		Restarted: {
			Least: 100 * time.Millisecond, Most: time.Second,
			Inject: func(context.Context, *rand.Rand, []trial.Target) error { return kill(0, 1, 2) },
		},
		FailedOver: {
			Inject: func(ctx context.Context, _ *rand.Rand, _ []trial.Target) error {
				leader, err := s.Leader(ctx)
				if err != nil {
					return err
				}
				return errors.Join(kill(leader), otherLeader(ctx, s, leader))
			},
		},
	}
	for _, b := range all {
		b.End = func(ctx context.Context) error {
			errs := make(chan error, 3)
			for _, i := range killed { // none serves before two are there
				go func() { errs <- s.Members()[i].Restart(ctx) }() // ends with ctx or with the start
			}
			var err error
			for range killed {
				err = errors.Join(err, <-errs)
			}
			killed = nil
			return err
		}
	}
	return func(fault string) *trial.Break { return all[fault] }
}

// otherLeader waits until another member leads.
func otherLeader(ctx context.Context, s trial.Service, than int) error {
	ctx, cancel := context.WithTimeout(ctx, longStart)
	defer cancel()
	for {
		now, err := s.Leader(ctx)
		if err == nil && now != than {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no other member leads: %w", errors.Join(ctx.Err(), err))
		}
		lockWait(ctx, settle/10)
	}
}

// onZooKeeper returns a client of an own design. It closes n if that fails.
func (d *Design) onZooKeeper(n *onzk.Near) (trial.Client, error) {
	l, err := d.zk(n.Connect)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return &client{network: n, locker: l}, nil
}

// reachZooKeeper opens a client in a process.
func reachZooKeeper(d *Design, target json.RawMessage, _ time.Duration) (trial.Client, error) {
	n, err := onzk.Reach(target)
	if err != nil {
		return nil, err
	}
	return d.onZooKeeper(n)
}

// zkDesigns are the designs on ZooKeeper.
func zkDesigns() []*Design {
	return []*Design{
		{Name: "one ephemeral node", reach: reachZooKeeper, zk: zklocks.OpenEphemeral},
		{Name: "predecessor gone", reach: reachZooKeeper, zk: zklocks.OpenPredecessor},
		{Name: onzk.StockCareless},
		{Name: onzk.Stock},
		{Name: trial.Ours},
		{Name: noLock, planted: true, reach: reachZooKeeper, zk: openNone},
	}
}

// openNone opens no lock. It connects all the same: the trials break its connections.
func openNone(connect func(onEvent func(zk.Event)) (*zk.Conn, error)) (lock.Locker, error) {
	c, err := connect(func(zk.Event) {})
	if err != nil {
		return nil, err
	}
	c.Close()
	return lock.None{}, nil
}

// etcdDesigns are the locks on etcd.
func etcdDesigns() []*Design { return []*Design{{Name: onetcd.Stock}, {Name: trial.Ours}} }
