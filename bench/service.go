package main

import (
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/bench/etcdstand"
	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/bench/zkstand"
)

// A service is where locks are compared: all that differs between one and
// another, but for the package with its stand.
type service struct {
	stand.Service
	flag      string // what it is called on the command line and in file names
	plan      func(amount) plan
	scenarios []string
	goals     []goal
}

// everything, on the command line, stands for all services.
const everything = "all"

func services() []service {
	return []service{
		{
			Service: etcdstand.Service(), flag: "etcd", plan: etcdPlan, goals: etcdGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "far", "line", "history"},
		},
		{
			Service: zkstand.Service(), flag: "zk", plan: zkPlan, goals: zkGoals(),
			scenarios: []string{"memory", "alone", "churn", "requests", "sharing", "far", "line"},
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

// contestants returns those who run alone, or those who run together.
func (s *service) contestants(alone bool) []stand.Contestant {
	var cs []stand.Contestant
	for _, c := range s.Contestants {
		if c.Alone == alone {
			cs = append(cs, c)
		}
	}
	return cs
}

// apart are contenders in processes of their own, together those in one.
func (s *service) apart() []stand.Contestant    { return s.contestants(true) }
func (s *service) together() []stand.Contestant { return s.contestants(false) }

// contestant returns that of a name, or one that nobody is compared with.
func (s *service) contestant(name string) stand.Contestant {
	for _, c := range s.Contestants {
		if c.Name == name {
			return c
		}
	}
	return stand.Contestant{Name: name, Use: name}
}

// rival returns the name of whom a contestant is compared with, who is used in
// the same way; "" if there is nobody.
func (s *service) rival(name string) string {
	who := s.contestant(name)
	for _, c := range s.Contestants {
		if c.Use == who.Use && c.Name != name {
			return c.Name
		}
	}
	return ""
}
