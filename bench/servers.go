package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/version"

	"github.com/fairlock/fairlock/bench/pgstand"
	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/bench/zkstand"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zktest"
)

// A setting describes the servers to start.
type setting struct {
	stand.Kind
	Outside bool // in processes of their own, if the service leaves the choice
}

// servers are running servers.
type servers struct {
	at      stand.Addresses
	version string
	close   func() error
}

func startEtcd(ctx context.Context, want setting) (servers, error) {
	c, err := etcdtest.Start(ctx, &etcdtest.Options{
		Members: want.Members(), Fsync: want.Fsync(), QuotaBytes: 8 << 30, Proxied: want.RTT() > 0, Processes: want.Outside,
	})
	if err != nil {
		return servers{}, err
	}
	rtt := want.RTT()
	if rtt > 0 {
		for i := range c.Len() {
			c.Member(i).ClientProxy().Delay(fault.Both, rtt/2)
		}
	}
	at := stand.Addresses{Clients: c.Endpoints(), Direct: c.Endpoints()}
	return servers{at: at, version: version.Version, close: c.Close}, nil
}

func startZooKeeper(ctx context.Context, want setting) (servers, error) {
	e, err := zktest.Start(ctx, &zktest.Options{
		Members: want.Members(), Fsync: want.Fsync(), Proxied: want.RTT() > 0, Tick: zkstand.Tick, MaxSession: zkstand.TTL,
		ContainerCheck: time.Minute, // as in production
	})
	if err != nil {
		return servers{}, err
	}
	all := servers{at: stand.Addresses{Clients: e.Endpoints()}, close: e.Close}
	for i := range e.Len() {
		m := e.Member(i)
		all.at.Direct = append(all.at.Direct, m.Direct())
		rtt := want.RTT()
		if rtt > 0 {
			m.ClientProxy().Delay(fault.Both, rtt/2)
		}
	}
	all.version, err = zkVersion(ctx, e)
	if err == nil {
		err = zkstand.Warm(ctx, all.at)
	}
	if err != nil {
		return servers{}, errors.Join(err, e.Close())
	}
	return all, nil
}

// zkVersion returns the version of the servers.
func zkVersion(ctx context.Context, e *zktest.Ensemble) (string, error) {
	answer, err := e.Member(0).Command(ctx, "srvr")
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^Zookeeper version: ([0-9.]+)`).FindStringSubmatch(answer)
	if m == nil {
		return "", fmt.Errorf("the server reports no version: %q", answer)
	}
	return m[1], nil
}

// startPostgres starts a primary. Every other member is a standby, of which each commit waits for
// one. Without fsync the data is in memory: fairlock refuses a server that has it off.
func startPostgres(ctx context.Context, want setting) (_ servers, err error) {
	s, err := pgtest.Start(ctx, &pgtest.Options{Disk: want.Fsync(), Config: map[string]string{
		"shared_buffers": "128MB", // PostgreSQL's default
		"max_wal_size":   "1GB",   // the same
	}})
	if err != nil {
		return servers{}, err
	}
	all := servers{at: stand.Addresses{Clients: []string{s.URL()}, Direct: []string{s.URL()}}, close: s.Close}
	defer func() {
		if err != nil {
			err = errors.Join(err, all.close())
		}
	}()
	for range want.Members() - 1 {
		if _, err := s.Standby(ctx, nil); err != nil {
			return servers{}, err
		}
	}
	if want.Members() > 1 {
		if err := s.Set(ctx, "synchronous_standby_names", "ANY 1 (*)"); err != nil {
			return servers{}, err
		}
	}
	rtt := want.RTT()
	if rtt > 0 {
		proxy, err := testnet.New(s.Addr(), nil)
		if err != nil {
			return servers{}, err
		}
		proxy.Delay(fault.Both, rtt/2)
		all.at.Clients = []string{strings.Replace(s.URL(), s.Addr(), proxy.Addr(), 1)}
		all.close = func() error { return errors.Join(proxy.Close(), s.Close()) }
	}
	if err := pgstand.Prepare(ctx, s.URL()); err != nil {
		return servers{}, err
	}
	all.version, err = pgtest.Value[string](ctx, s, "show server_version")
	return all, err
}

// startRedis starts a server. With fsync, each change is on the disk before it is answered.
func startRedis(ctx context.Context, want setting) (servers, error) {
	if want.Members() > 1 {
		return servers{}, fmt.Errorf("%s: no request of a lock waits for a replica, so there is only one server", want.Kind)
	}
	var o redistest.Options
	if want.Fsync() {
		o = redistest.Options{Persistence: redistest.Log, Disk: true, Config: []string{"appendfsync always"}}
	}
	s, err := redistest.Start(ctx, &o)
	if err != nil {
		return servers{}, err
	}
	all := servers{at: stand.Addresses{Clients: []string{s.Addr()}, Direct: []string{s.Addr()}}, close: s.Close}
	rtt := want.RTT()
	if rtt > 0 {
		proxy, err := testnet.New(s.Addr(), nil)
		if err != nil {
			return servers{}, errors.Join(err, s.Close())
		}
		proxy.Delay(fault.Both, rtt/2)
		all.at.Clients = []string{proxy.Addr()}
		all.close = func() error { return errors.Join(proxy.Close(), s.Close()) }
	}
	about, err := s.Do(ctx, "INFO", "server").ToString()
	if err != nil {
		return servers{}, errors.Join(err, all.close())
	}
	m := regexp.MustCompile(`(?m)^redis_version:([0-9.]+)`).FindStringSubmatch(about)
	if m == nil {
		return servers{}, errors.Join(fmt.Errorf("the server reports no version: %q", about), all.close())
	}
	all.version = m[1]
	return all, nil
}

// noServers is for a service without servers.
func noServers(context.Context, setting) (servers, error) {
	return servers{close: func() error { return nil }}, nil
}
