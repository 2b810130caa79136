// Package onetcd tests locks on three members of etcd, which run in their own processes
// behind proxies: Fairlock's locks, and the mutex of etcd's client.
package onetcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Name is the name of the service.
const Name = "etcd"

// Stock is the mutex of etcd's client library.
const Stock = "concurrency.Mutex"

const members = 3

// attemptTimeout bounds one attempt of an operator's request, because its member may be
// stopped.
const attemptTimeout = 700 * time.Millisecond

// Service implements trial.Service and trial.Watcher.
type Service struct {
	cluster *etcdtest.Cluster
	admin   *clientv3.Client // bypasses the proxies
	feed    *feed
	members []trial.Member
	marks   atomic.Int64 // how often mark was called
}

var (
	_ trial.Service = (*Service)(nil)
	_ trial.Watcher = (*Service)(nil)
)

// Start starts three members. ctx bounds only the start.
func Start(ctx context.Context) (*Service, error) {
	cluster, err := etcdtest.Start(ctx, &etcdtest.Options{Members: members, Processes: true, Proxied: true})
	if err != nil {
		return nil, err
	}
	s := &Service{cluster: cluster}
	s.admin, err = cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.Endpoints = s.direct()
		// The client soon leaves a stopped member, and soon finds a restarted one.
		cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = time.Second, time.Second
		cfg.DialOptions = append(cfg.DialOptions, fastReconnect())
	})
	if err == nil {
		s.feed, err = follow(cluster)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for i := range members {
		s.members = append(s.members, &member{Member: cluster.Member(i)})
	}
	return s, nil
}

// direct returns the endpoints that bypass the proxies.
func (s *Service) direct() []string {
	var all []string
	for i := range members {
		all = append(all, s.cluster.Member(i).Direct())
	}
	return all
}

// fastReconnect makes a client soon try a member again that refused it.
func fastReconnect() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		MinConnectTimeout: time.Second,
	})
}

// Name implements trial.Service.
func (s *Service) Name() string { return Name }

// Transport implements trial.Service.
func (s *Service) Transport() string { return "" }

// Margin implements trial.Service: etcdbackend's default.
func (s *Service) Margin() time.Duration { return max(trial.TTL/10, time.Second) }

// Locks implements trial.Service.
func (s *Service) Locks() []string { return []string{trial.Ours, Stock} }

// Client implements trial.Service.
func (s *Service) Client(ctx context.Context, lock string, only ...int) (trial.Client, error) {
	n, err := newNetwork(s.cluster, only)
	if err != nil {
		return nil, err
	}
	c, err := open(ctx, lock, n)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return c, nil
}

// Members implements trial.Service.
func (s *Service) Members() []trial.Member { return s.members }

// Leader implements trial.Service.
func (s *Service) Leader(ctx context.Context) (int, error) { return s.cluster.Leader(ctx) }

// MoveLeader implements trial.Service.
func (s *Service) MoveLeader(ctx context.Context, to int) error { return s.cluster.MoveLeader(ctx, to) }

// Healthy implements trial.Service: every member answers a linearizable read,
// knows the leader, raises no alarm, and has applied what was written before.
func (s *Service) Healthy(ctx context.Context) error {
	wrote, err := s.mark(ctx)
	if err != nil {
		return err
	}
	leader, err := s.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	for i, endpoint := range s.direct() {
		err := s.retry(ctx, func(ctx context.Context) error {
			r, err := s.admin.Status(ctx, endpoint)
			switch {
			case err != nil:
				return err
			case r.Header.Revision < wrote:
				return fmt.Errorf("is at revision %d, behind %d", r.Header.Revision, wrote)
			case r.Leader != s.cluster.Member(leader).ID():
				return errors.New("follows another leader, or none")
			case len(r.Errors) > 0:
				return fmt.Errorf("reports %q", r.Errors)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("onetcd: member %d: %w", i, err)
		}
	}
	return s.feed.caughtUp(ctx, wrote)
}

// mark writes a key to advance the revision, and returns that revision.
func (s *Service) mark(ctx context.Context) (rev int64, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		r, err := s.admin.Put(ctx, "mark", strconv.FormatInt(s.marks.Add(1), 10))
		if err == nil {
			rev = r.Header.Revision
		}
		return err
	})
	return rev, err
}

// retry calls f, which may be carried out more than once, until it succeeds or ctx ends.
func (s *Service) retry(ctx context.Context, f func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := f(one)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// EndSession implements trial.Service.
func (s *Service) EndSession(ctx context.Context, id string) error {
	lease, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return fmt.Errorf("onetcd: end session %q: %w", id, err)
	}
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.Revoke(ctx, clientv3.LeaseID(lease)) //nolint:gosec // lease ids are opaque bits
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil // an earlier attempt succeeded, and its reply was lost
		}
		return err
	})
}

// Delete implements trial.Service.
func (s *Service) Delete(ctx context.Context, entry string) error {
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.Delete(ctx, entry)
		return err
	})
}

// Compact implements trial.Service. When it returns, the members can no longer send the
// events before it, and the feed has received them.
func (s *Service) Compact(ctx context.Context) error {
	before, err := s.mark(ctx)
	if err != nil {
		return err
	}
	rev, err := s.mark(ctx)
	if err != nil {
		return err
	}
	if err := s.feed.caughtUp(ctx, rev); err != nil {
		return err
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.Compact(ctx, rev, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("onetcd: compact: %w", err)
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.Get(ctx, "mark", clientv3.WithRev(before))
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("revision %d still exists: %w", before, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("onetcd: compact: %w", err)
	}
	return nil
}

// Entries implements trial.Service.
func (s *Service) Entries(ctx context.Context, lock, queue string) ([]string, error) {
	var keys []string
	err := s.retry(ctx, func(ctx context.Context) error {
		r, err := s.admin.Get(ctx, prefix(lock, queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return err
		}
		keys = nil
		for _, kv := range r.Kvs {
			keys = append(keys, string(kv.Key))
		}
		return nil
	})
	return keys, err
}

// Order implements trial.Service. It returns the changes of the feed, which include all
// that happened before the call.
func (s *Service) Order(ctx context.Context, lock, queue string) ([]history.Change, error) {
	var rev int64
	err := s.retry(ctx, func(ctx context.Context) error {
		r, err := s.admin.Get(ctx, "mark")
		if err == nil {
			rev = r.Header.Revision
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.feed.caughtUp(ctx, rev); err != nil {
		return nil, err
	}
	return slices.Clone(s.feed.changes(lock, queue)), nil
}

// Left implements trial.Watcher.
func (s *Service) Left(entry string) history.Instant { return s.feed.leftAt(entry) }

// Close implements trial.Service.
func (s *Service) Close() error {
	var errs []error
	if s.feed != nil {
		errs = append(errs, s.feed.close())
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
	}
	return errors.Join(append(errs, s.cluster.Close())...)
}
