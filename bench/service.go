package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/bench/etcdstand"
	"github.com/fairlock/fairlock/bench/memstand"
	"github.com/fairlock/fairlock/bench/pgstand"
	"github.com/fairlock/fairlock/bench/redisstand"
	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/bench/zkstand"
)

// A service is a kind of servers on which locks are compared. Everything that differs between
// services is here and in the package with its stand.
type service struct {
	stand.Service
	flag      string // its name on the command line and in file names
	counts    bool   // its stand counts requests
	servers   func(ctx context.Context, want setting) (servers, error)
	plan      func(amount) plan
	scenarios []string
	goals     []goal
}

// everything is the value of -on for all services.
const everything = "all"

func services() []service {
	return []service{
		{
			Service: etcdstand.Service(), flag: "etcd", counts: true, servers: startEtcd, plan: etcdPlan, goals: etcdGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "free", "far", "pass", "line", "roll", "history", "metrics"},
		},
		{
			Service: zkstand.Service(), flag: "zk", counts: true, servers: startZooKeeper, plan: zkPlan, goals: zkGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "free", "far", "pass", "line", "roll"},
		},
		{
			Service: pgstand.Service(), flag: "postgres", counts: true, servers: startPostgres, plan: pgPlan, goals: pgGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "far", "pass", "line", "roll", "rest", "wear"},
		},
		{
			Service: redisstand.Service(), flag: "redis", counts: true, servers: startRedis, plan: redisPlan, goals: redisGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "far", "pass", "line", "roll", "rest", "crowd"},
		},
		{
			Service: memstand.Service(), flag: "mem", servers: noServers, plan: memPlan, goals: []goal{flatGoal()},
			scenarios: []string{"alone", "churn", "line", "metrics"},
		},
	}
}

// parseServices returns the service with that name, or all.
func parseServices(name string) ([]service, error) {
	all := services()
	if name == everything {
		return all, nil
	}
	var flags []string
	for _, s := range all {
		if s.flag == name {
			return []service{s}, nil
		}
		flags = append(flags, s.flag)
	}
	return nil, fmt.Errorf("-on: %q is none of %s, %s", name, strings.Join(flags, ", "), everything)
}

// contestants returns the wanted contestants.
func (s *service) contestants(wanted func(stand.Contestant) bool) []stand.Contestant {
	var cs []stand.Contestant
	for _, c := range s.Contestants {
		if wanted(c) {
			cs = append(cs, c)
		}
	}
	return cs
}

// peers is the title of the peers' column.
func (s *service) peers() string {
	for _, c := range s.Contestants {
		if c.Against != "" {
			return "peer"
		}
	}
	return s.Peer
}

// locks returns all contestants but the bare requests. apart returns those with a session for each
// contender, and together those in one process.
func (s *service) locks() []stand.Contestant {
	return s.contestants(func(c stand.Contestant) bool { return !c.Bare })
}

func (s *service) apart() []stand.Contestant {
	return s.contestants(func(c stand.Contestant) bool { return c.Alone && !c.Bare })
}

func (s *service) together() []stand.Contestant {
	return s.contestants(func(c stand.Contestant) bool { return !c.Alone })
}

func (s *service) oursTogether() []stand.Contestant {
	return s.contestants(func(c stand.Contestant) bool { return c.Ours && !c.Alone })
}

func (s *service) bare() []stand.Contestant {
	return s.contestants(func(c stand.Contestant) bool { return c.Bare })
}

// contestant returns the contestant with a name, or one that has no counterpart.
func (s *service) contestant(name string) stand.Contestant {
	for _, c := range slices.Concat(observed(), candidates(), []stand.Contestant{crowd(1)}, s.Contestants) {
		if c.Name == name {
			return c
		}
	}
	return stand.Contestant{Name: name, Use: name}
}

// counterpart returns the name of the contestant of the other side with the same use; "" if there
// is none.
func (s *service) counterpart(name string) string {
	contestant := s.contestant(name)
	return s.sameUse(contestant, func(c stand.Contestant) bool { return c.Ours != contestant.Ours && !c.Old })
}

// earlier returns the name of the same contestant at the earlier commit; "" if there is none.
func (s *service) earlier(name string) string {
	return s.sameUse(s.contestant(name), func(c stand.Contestant) bool { return c.Old })
}

func (s *service) sameUse(contestant stand.Contestant, wanted func(stand.Contestant) bool) string {
	for _, c := range s.contestants(wanted) {
		if c.Use == contestant.Use && c.Name != contestant.Name {
			return c.Name
		}
	}
	return ""
}
