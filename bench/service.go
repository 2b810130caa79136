package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/bench/etcdstand"
	"github.com/fairlock/fairlock/bench/memstand"
	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/bench/zkstand"
)

// A service is where locks are compared: all that differs between one and
// another, but for the package with its stand.
type service struct {
	stand.Service
	flag      string // what it is called on the command line and in file names
	counts    bool   // requests are counted there
	servers   func(ctx context.Context, want setting) (servers, error)
	plan      func(amount) plan
	scenarios []string
	goals     []goal
}

// everything, on the command line, stands for all services.
const everything = "all"

func services() []service {
	return []service{
		{
			Service: etcdstand.Service(), flag: "etcd", counts: true, servers: startEtcd, plan: etcdPlan, goals: etcdGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "free", "far", "line", "history", "metrics"},
		},
		{
			Service: zkstand.Service(), flag: "zk", counts: true, servers: startZooKeeper, plan: zkPlan, goals: zkGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "free", "far", "line"},
		},
		{
			Service: memstand.Service(), flag: "mem", servers: noServers, plan: memPlan, goals: []goal{flatGoal()},
			scenarios: []string{"alone", "churn", "line", "metrics"},
		},
	}
}

// parseServices returns the service of that name, or all.
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

// contestants returns those that are wanted.
func (s *service) contestants(wanted func(stand.Contestant) bool) []stand.Contestant {
	var cs []stand.Contestant
	for _, c := range s.Contestants {
		if wanted(c) {
			cs = append(cs, c)
		}
	}
	return cs
}

// locks are all but the bare requests; apart are those of contenders in processes of their
// own, and together those in one.
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

// contestant returns that of a name, or one that nobody is compared with.
func (s *service) contestant(name string) stand.Contestant {
	for _, c := range append(observed(), s.Contestants...) {
		if c.Name == name {
			return c
		}
	}
	return stand.Contestant{Name: name, Use: name}
}

// rival returns the name of the contestant on the other side that is used in the same way,
// and that a contestant is compared with; "" if there is none.
func (s *service) rival(name string) string {
	who := s.contestant(name)
	return s.usedAs(who, func(c stand.Contestant) bool { return c.Ours != who.Ours && !c.Old })
}

// earlier returns the name of the same contestant of ours at the earlier commit; "" if
// there is none.
func (s *service) earlier(name string) string {
	return s.usedAs(s.contestant(name), func(c stand.Contestant) bool { return c.Old })
}

func (s *service) usedAs(who stand.Contestant, wanted func(stand.Contestant) bool) string {
	for _, c := range s.contestants(wanted) {
		if c.Use == who.Use && c.Name != who.Name {
			return c.Name
		}
	}
	return ""
}
