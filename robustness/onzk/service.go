// Package onzk tests locks on a ZooKeeper ensemble of three members behind proxies:
// Fairlock's locks, and the lock of the go-zookeeper client.
package onzk

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/zktest"
)

// Name is the name of the service.
const Name = "zookeeper"

const (
	members = 3

	// tick is short enough for sessions of trial.TTL, with time for renewals.
	tick = 200 * time.Millisecond
)

// Service implements trial.Service and trial.Watcher.
type Service struct {
	transport string
	ensemble  *zktest.Ensemble
	endpoints *endpoints
	admin     *admin
	members   []trial.Member
	commits   *commitTracker
	orders    *orders
	watch     *entryWatch
	opening   chan struct{} // a place for each client that may open at the same time with TLS

	mu        sync.Mutex
	passwords map[int64]string // of all sessions of the clients of this Service
}

var (
	_ trial.Service = (*Service)(nil)
	_ trial.Watcher = (*Service)(nil)
)

// Start starts three members with one of the transports. ctx bounds only the start.
func Start(ctx context.Context, transport string) (*Service, error) {
	if !slices.Contains(Transports(), transport) {
		return nil, fmt.Errorf("onzk: no transport %q", transport)
	}
	e, err := zktest.Start(ctx, &zktest.Options{
		Members: members, Proxied: true, Tick: tick, Netty: transport == Netty, TLS: transport == TLS,
		ContainerCheck: time.Minute, // as in production
	})
	if err != nil {
		return nil, err
	}
	s := &Service{transport: transport, ensemble: e, passwords: map[int64]string{}, opening: make(chan struct{}, 4)}
	s.commits = follow(e)
	s.orders = newOrders(e, s.commits)
	for i := range members {
		s.members = append(s.members, &member{Member: e.Member(i), ensemble: e, index: i})
	}
	s.endpoints, err = endpointsOf(e)
	if err == nil {
		s.admin, err = newAdmin(s.endpoints) //nolint:contextcheck // it lives until close
	}
	if err == nil {
		s.watch = newEntryWatch(s.admin)
		for _, path := range []string{markPath, root, stockRoot} {
			err = errors.Join(err, s.admin.createNode(ctx, path))
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Name implements trial.Service.
func (s *Service) Name() string { return Name }

// Margin implements trial.Service: zkbackend's default.
func (s *Service) Margin() time.Duration { return max(trial.TTL/10, 100*time.Millisecond) }

// Transport implements trial.Service.
func (s *Service) Transport() string { return s.transport }

// Locks implements trial.Service. The peers' locks are tested without TLS only.
func (s *Service) Locks() []string {
	if s.transport == TLS {
		return []string{trial.Ours}
	}
	return []string{trial.Ours, Stock, StockCareless}
}

// Client implements trial.Service. With TLS few clients open at the same time: on a busy machine
// the handshakes of a whole round would take longer than a client waits for one, again and again.
func (s *Service) Client(ctx context.Context, lock string, only ...int) (trial.Client, error) {
	if s.transport == TLS {
		select {
		case s.opening <- struct{}{}:
			defer func() { <-s.opening }()
		case <-ctx.Done():
			return nil, fmt.Errorf("onzk: open: %w", ctx.Err())
		}
	}
	n, err := newNetwork(s.endpoints, only, s.learn) //nolint:contextcheck // it lives until Close
	if err != nil {
		return nil, err
	}
	return open(ctx, lock, n, s.placeOf)
}

// learn notes the password of a session.
func (s *Service) learn(id int64, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passwords[id] = password
}

// placeOf returns the czxid of an entry that exists or has existed. A fault may be in effect
// on the servers, so it waits for at most TTL/2, and then returns 0.
func (s *Service) placeOf(path string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), trial.TTL/2)
	defer cancel()
	zxid := s.admin.czxid(ctx, path)
	if zxid != 0 {
		return zxid
	}
	done, _ := s.ensemble.Journal(stockRoot).Next(ctx)
	i := slices.IndexFunc(done, func(c zktest.Change) bool { return c.Kind == zktest.Created && c.Path == path })
	if i < 0 {
		return 0
	}
	return done[i].Zxid
}

// Process implements trial.Service.
func (s *Service) Process(ctx context.Context, lock, queue string, req trial.Request) (*trial.Process, error) {
	return trial.Spawn(ctx, Name, history.Queue{Name: queue, Recipe: history.Mutex}, req, childArg{Lock: lock, Endpoints: s.endpoints})
}

// Members implements trial.Service.
func (s *Service) Members() []trial.Member { return s.members }

// Leader implements trial.Service.
func (s *Service) Leader(ctx context.Context) (int, error) { return s.ensemble.Leader(ctx) }

// MoveLeader implements trial.Service: ZooKeeper has no such request.
func (s *Service) MoveLeader(context.Context, int) error { return unsupported("move the leader") }

// Compact implements trial.Service: ZooKeeper keeps no old revisions.
func (s *Service) Compact(context.Context) error { return unsupported("compact") }

// Quota implements trial.Service: ZooKeeper's quotas only warn.
func (s *Service) Quota(context.Context) (func(context.Context) error, error) {
	return nil, unsupported("run into a quota")
}

func unsupported(what string) error { return fmt.Errorf("onzk: %s: %w", what, errors.ErrUnsupported) }

// Healthy implements trial.Service: one member leads, the others follow, and all have applied
// what was written before.
func (s *Service) Healthy(ctx context.Context) error {
	wrote, err := s.admin.mark(ctx)
	if err != nil {
		return fmt.Errorf("onzk: write: %w", err)
	}
	for {
		err := s.checkServing(ctx, wrote)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("onzk: %w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

var (
	modeLine = regexp.MustCompile(`(?m)^Mode: (.*)$`)
	zxidLine = regexp.MustCompile(`(?m)^Zxid: (.*)$`)
)

// checkServing checks that all members serve and have applied the transaction wrote, and that
// one of them leads.
func (s *Service) checkServing(ctx context.Context, wrote int64) error {
	ctx, cancel := context.WithTimeout(ctx, trial.TTL/2) // one of them may be stopped
	defer cancel()
	leaders := 0
	for i := range members {
		m := s.ensemble.Member(i)
		reply, err := m.Command(ctx, "srvr")
		if err != nil {
			return err
		}
		mode, zxid := modeLine.FindStringSubmatch(reply), zxidLine.FindStringSubmatch(reply)
		if mode == nil || zxid == nil {
			return fmt.Errorf("%s reports %q", m.Name(), reply)
		}
		if mode[1] == "leader" {
			leaders++
		}
		n, err := strconv.ParseInt(zxid[1], 0, 64)
		switch {
		case err != nil:
			return err
		case n < wrote:
			return fmt.Errorf("%s is at %#x, behind %#x", m.Name(), n, wrote)
		}
	}
	if leaders != 1 {
		return fmt.Errorf("%d members report that they lead, want 1", leaders)
	}
	return nil
}

// EndSession implements trial.Service.
func (s *Service) EndSession(ctx context.Context, id string) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("onzk: end session %q: %w", id, err)
	}
	s.mu.Lock()
	password, ok := s.passwords[int64(n)] //nolint:gosec // opaque bits
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("onzk: end session %q: no client of this service has had it", id)
	}
	if err := endSession(ctx, s.endpoints, int64(n), password); err != nil { //nolint:gosec // as above
		return fmt.Errorf("onzk: end session %q: %w", id, err)
	}
	return nil
}

// Delete implements trial.Service.
func (s *Service) Delete(ctx context.Context, entry string) error {
	attempts := 0
	_, err := retry(ctx, s.admin, func(c *zk.Conn) (bool, error) {
		err := c.Delete(entry, -1)
		attempts++
		if attempts > 1 && errors.Is(err, zk.ErrNoNode) {
			err = nil // an earlier attempt succeeded, and its reply was lost
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("onzk: delete %q: %w", entry, err)
	}
	return nil
}

// Entries implements trial.Service. It returns paths, in the order of the queue.
func (s *Service) Entries(ctx context.Context, lock, queue string) ([]string, error) {
	folder := folderOf(lock, queue)
	names, err := s.admin.children(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("onzk: entries of %q: %w", queue, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := parseEntry(name); return !ok })
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	for i, name := range names {
		names[i] = folder + "/" + name
	}
	return names, nil
}

// Order implements trial.Service. It waits until all members serve.
func (s *Service) Order(ctx context.Context, lock, queue string) ([]history.Change, error) {
	order, err := s.orders.of(ctx, lock, queue)
	if err != nil {
		return nil, fmt.Errorf("onzk: order of %q: %w", queue, err)
	}
	return order, nil
}

// Left implements trial.Watcher. It watches an entry from the first call on.
func (s *Service) Left(entry string) history.Instant { return s.watch.deletedAt(entry) }

// Close implements trial.Service.
func (s *Service) Close() error {
	if s.admin != nil {
		s.watch.close()
		s.admin.close()
	}
	return errors.Join(s.commits.close(), s.ensemble.Close())
}
