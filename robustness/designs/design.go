package designs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/designs/sqllocks"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Design is one way to build a lock on a store.
type Design struct {
	Name, Store string

	only    string // the setup on which it runs; all but those of others if empty
	clocked bool   // it depends on the clocks of the programs
	renews  bool   // its holders renew, so its time is always trial.TTL
	planted bool   // it is wrong on purpose, to show what the trials see

	// reach opens a client of an own design in another process; nil for a lock of a trial.Service. The other
	// functions open one here, each of one kind of store.
	reach func(d *Design, target json.RawMessage, timeout time.Duration) (trial.Client, error)
	redis func(n *onredis.Near, timeout time.Duration) lock.Locker
	sql   func(db *sqllocks.DB, timeout time.Duration) lock.Locker
	zk    func(connect func(onEvent func(zk.Event)) (*zk.Conn, error)) (lock.Locker, error)
}

// The planted designs.
const (
	noLock    = "no lock"
	neverFree = "never freed"
)

// Store is a store with the setups of its servers, each of which has some of the faults.
type Store struct {
	Name, Title string
	Setups      []string
	start       func(ctx context.Context, setup string) (Stand, error)
	designs     func() []*Design
}

// Stores returns all stores.
func Stores() []*Store {
	return []*Store{
		{Name: onredis.Name, Title: "Redis", Setups: []string{onredis.Alone, onredis.Logged, onredis.Sentinels, onredis.Five}, start: startRedis, designs: redisDesigns},
		{Name: onpg.Name, Title: "PostgreSQL", Setups: []string{onpg.Direct, onpg.Asynchronous}, start: startPostgres, designs: postgresDesigns},
		{Name: mariaName, Title: "MariaDB", Setups: []string{""}, start: startMariaDB, designs: mariaDesigns},
		{Name: onzk.Name, Title: "ZooKeeper", Setups: []string{onzk.Transports()[0]}, start: startZooKeeper, designs: zkDesigns},
		{Name: onetcd.Name, Title: "etcd", Setups: []string{""}, start: startEtcd, designs: etcdDesigns},
	}
}

// Start starts a stand.
func (s *Store) Start(ctx context.Context, setup string) (Stand, error) {
	stand, err := s.start(ctx, setup)
	if err != nil {
		return nil, fmt.Errorf("designs: start %s %s: %w", s.Name, setup, err)
	}
	return stand, nil
}

// Designs returns the designs of a store, without those that are planted.
func (s *Store) Designs() []*Design {
	var all []*Design
	for _, d := range s.all() {
		if !d.planted {
			all = append(all, d)
		}
	}
	return all
}

func (s *Store) all() []*Design {
	all := s.designs()
	for _, d := range all {
		d.Store = s.Name
	}
	return all
}

// DesignOf returns a design by its name; nil if there is none.
func DesignOf(store, name string) *Design {
	for _, s := range Stores() {
		for _, d := range s.all() {
			if s.Name == store && d.Name == name {
				return d
			}
		}
	}
	return nil
}

// On reports whether a design is tried under a fault on a setup of its store: each of the faults at programs on
// one setup, and those at servers on the setups that have them.
func (d *Design) On(s *Store, stand Stand, f *Fault) bool {
	home := s.Setups[0]
	if d.only != "" {
		home = d.only
	}
	switch {
	case d.only != "" && stand.Setup() != d.only, d.only == "" && stand.Setup() == onredis.Five:
		return false
	case f.server:
		return stand.Break(f.Name) != nil
	}
	return stand.Setup() == home
}

// Openers returns the functions that the processes of holders need: trial.Child in main and TestMain.
func Openers() map[string]trial.Opener {
	return map[string]trial.Opener{
		childName: openChild, onetcd.Name: onetcd.OpenChild, onzk.Name: onzk.Open, onpg.Name: onpg.OpenChild, onredis.Name: onredis.OpenChild,
	}
}
