package designs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/designs/redislocks"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/trial"
)

// service is a stand on a service of the other trials, which has the peers and Fairlock.
type service struct {
	trial.Service
	open   func(d *Design, timeout time.Duration) (trial.Client, error) // of an own design
	target func() (json.RawMessage, error)                              // for a process of one
	breaks func(fault string) *trial.Break
}

// Setup implements Stand.
func (s *service) Setup() string { return s.Transport() }

// Open implements Stand.
func (s *service) Open(ctx context.Context, d *Design, timeout time.Duration) (trial.Client, error) {
	if d.reach == nil {
		return s.Client(ctx, d.Name)
	}
	return s.open(d, timeout)
}

// Process implements Stand.
func (s *service) Process(ctx context.Context, d *Design, queue string) (*trial.Process, error) {
	if d.reach == nil {
		return s.Service.Process(ctx, d.Name, queue, trial.Request{Weight: 1})
	}
	target, err := s.target()
	if err != nil {
		return nil, err
	}
	return spawn(ctx, d, queue, target)
}

// Break implements Stand.
func (s *service) Break(fault string) *trial.Break { return s.breaks(fault) }

// startRedis starts a stand on Redis.
func startRedis(ctx context.Context, setup string) (Stand, error) {
	s, err := onredis.Start(ctx, setup)
	if err != nil {
		return nil, err
	}
	names := map[string]map[string]string{
		onredis.Alone:     {Emptied: "server-killed-empty", ClockMoved: "clock-ahead"},
		onredis.Logged:    {Restarted: "server-killed-with-data"},
		onredis.Sentinels: {FailedOver: "master-killed"},
		onredis.Five:      {Emptied: "one-of-five-killed-empty", ClockMoved: "one-of-five-clock-ahead"},
	}
	return &service{
		Service: s,
		open: func(d *Design, timeout time.Duration) (trial.Client, error) {
			n, err := s.Near()
			if err != nil {
				return nil, err
			}
			return d.onRedis(n, timeout), nil
		},
		target: s.Target,
		breaks: func(fault string) *trial.Break { return s.Break(names[setup][fault]) },
	}, nil
}

// onRedis returns a client of an own design.
func (d *Design) onRedis(n *onredis.Near, timeout time.Duration) trial.Client {
	return &client{network: n, locker: d.redis(n, timeout)}
}

// reachRedis opens a client in a process.
func reachRedis(d *Design, target json.RawMessage, timeout time.Duration) (trial.Client, error) {
	n, err := onredis.Reach(target)
	if err != nil {
		return nil, err
	}
	return d.onRedis(n, timeout), nil
}

// redisDesigns are the designs on Redis.
func redisDesigns() []*Design {
	own := func(d *Design, open func(n *onredis.Near, timeout time.Duration) lock.Locker) *Design {
		d.reach, d.redis = reachRedis, open
		return d
	}
	setNX := func(compare bool) func(n *onredis.Near, timeout time.Duration) lock.Locker {
		return func(n *onredis.Near, timeout time.Duration) lock.Locker {
			return &redislocks.SetNX{Client: n.Clients()[0], TTL: timeout, Compare: compare}
		}
	}
	return []*Design{
		own(&Design{Name: "SET NX PX, DEL"}, setNX(false)),
		own(&Design{Name: "SET NX PX, script"}, setNX(true)),
		own(&Design{Name: "SETNX, GETSET", clocked: true}, func(n *onredis.Near, timeout time.Duration) lock.Locker {
			return &redislocks.GetSet{Client: n.Clients()[0], TTL: timeout}
		}),
		own(&Design{Name: "watchdog, pub/sub", renews: true}, func(n *onredis.Near, timeout time.Duration) lock.Locker {
			return &redislocks.Watchdog{Client: n.Clients()[0], TTL: timeout}
		}),
		{Name: onredis.Redislock},
		{Name: onredis.Redsync},
		{Name: onredis.Redlock, only: onredis.Five},
		{Name: trial.Ours},
		own(&Design{Name: noLock, planted: true}, func(*onredis.Near, time.Duration) lock.Locker { return lock.None{} }),
		own(&Design{Name: neverFree, planted: true}, func(n *onredis.Near, _ time.Duration) lock.Locker {
			return lock.Never{Locker: &redislocks.SetNX{Client: n.Clients()[0], TTL: time.Hour}}
		}),
	}
}
