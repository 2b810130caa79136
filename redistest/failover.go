package redistest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
)

// waitReady returns when the replicas are in sync and each Sentinel has seen all that it must know.
func (s *Sentinels) waitReady(ctx context.Context, opts Options) error {
	waiting, cancel := testserver.Progressing(ctx, opts.StartTimeout, s.progress)
	defer cancel()
	for _, replica := range s.servers[1:] {
		err := until(waiting, func() (bool, error) {
			fields, err := replica.Info(waiting, "replication")
			return fields["master_link_status"] == "up", err
		})
		if err == nil {
			err = replica.CatchUp(waiting)
		}
		if err != nil {
			return fmt.Errorf("redistest: replica in sync: %w", err)
		}
	}
	for _, x := range s.sentinels {
		if err := until(waiting, func() (bool, error) { return s.seesAll(waiting, x) }); err != nil {
			return fmt.Errorf("redistest: Sentinel that sees all others: %w", err)
		}
	}
	return nil
}

func (s *Sentinels) progress() (all int) {
	for _, x := range s.sentinels {
		all += x.running().StderrLen()
	}
	for _, x := range s.servers {
		all += x.running().StderrLen()
	}
	return all
}

// seesAll reports whether a Sentinel sees the master, all replicas and all other Sentinels, and that
// none of them is down.
func (s *Sentinels) seesAll(ctx context.Context, x *Server) (bool, error) {
	for _, ask := range []struct {
		command, flags string
		count          int
	}{
		{"REPLICAS", "slave", len(s.servers) - 1},
		{"SENTINELS", "sentinel", len(s.sentinels) - 1},
	} {
		list, err := x.Do(ctx, "SENTINEL", ask.command, MasterName).ToArray()
		if err != nil {
			return false, err
		}
		if len(list) != ask.count {
			return false, nil
		}
		for _, one := range list {
			fields, err := one.AsStrMap()
			if err != nil {
				return false, err
			}
			if fields["flags"] != ask.flags || ask.flags == "slave" && fields["master-link-status"] != "ok" {
				return false, nil
			}
		}
	}
	fields, err := x.Do(ctx, "SENTINEL", "MASTER", MasterName).AsStrMap()
	return fields["flags"] == "master", err
}

// Master returns the master of which more than half of all Sentinels say that it is the one. It
// waits until they do; they may be late.
func (s *Sentinels) Master(ctx context.Context) (master *Server, err error) {
	timeout := answerWithin
	err = until(ctx, func() (bool, error) {
		votes := map[string]int{}
		ports := s.ask(ctx, timeout)
		timeout += answerWithin / 2
		for _, port := range ports {
			votes[port]++
		}
		for port, n := range votes {
			if n > len(s.sentinels)/2 {
				master = s.servers[0].role.peers.at(port)
			}
		}
		return master != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("redistest: master of the Sentinels: %w", err)
	}
	return master, nil
}

// ask returns the ports of the masters that Sentinels name, those that answer.
func (s *Sentinels) ask(ctx context.Context, timeout time.Duration) (ports []string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for _, x := range s.sentinels {
		wg.Go(func() {
			addr, err := x.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).AsStrSlice()
			if err != nil || len(addr) != 2 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ports = append(ports, addr[1])
		})
	}
	wg.Wait()
	return ports
}

// Failover makes the Sentinels promote a replica while the master lives, and returns the new
// master like AwaitFailover.
func (s *Sentinels) Failover(ctx context.Context) (*Server, error) {
	from, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	var last error
	timeout := answerWithin
	err = until(ctx, func() (bool, error) {
		timeout += answerWithin / 2
		for _, x := range s.sentinels {
			asking, cancel := context.WithTimeout(ctx, timeout)
			last = x.Do(asking, "SENTINEL", "FAILOVER", MasterName).Error()
			cancel()
			if last == nil {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: failover: %w", err), last)
	}
	return s.AwaitFailover(ctx, from)
}

// AwaitFailover returns the new master when more than half of all Sentinels name another than from,
// and that one accepts writes. The old master may accept writes for some seconds yet.
func (s *Sentinels) AwaitFailover(ctx context.Context, from *Server) (master *Server, err error) {
	err = until(ctx, func() (bool, error) {
		master, err = s.Master(ctx)
		if err != nil || master == from {
			return false, err
		}
		fields, err := master.Info(ctx, "replication")
		return fields["role"] == "master", err
	})
	if err != nil {
		return nil, fmt.Errorf("redistest: failover from %s: %w", from.Addr(), err)
	}
	return master, nil
}
