// Package onredis tests locks on Redis: Fairlock's locks, and those of go-redsync and redislock. The servers
// run in processes of their own, and each client is behind proxies of its own.
package onredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

// Name is the name of the service.
const Name = "redis"

// The root of Fairlock's queues, and what begins its keys. The names of the keys are those that the docs
// describe; no code is shared with the backend.
const (
	root   = "robustness"
	prefix = "{" + root + "}:"
)

// attemptTimeout bounds one attempt of an operator's request, because the server may be stopped.
const attemptTimeout = 700 * time.Millisecond

// Service implements trial.Service, trial.Breaker and trial.Forgetter.
type Service struct {
	setup     string
	servers   []*redistest.Server
	sentinels *redistest.Sentinels // nil for none
	cluster   *redistest.Cluster   // nil for none
	closers   []func() error
	keeper    *session.Session // it is there all the time, as another program would be
	resting   context.CancelFunc
	rested    chan struct{}

	mu      sync.Mutex
	primary *redistest.Server
	admins  map[*redistest.Server]rueidis.Client
	ttl     time.Duration       // of the sessions that are opened next
	began   history.Instant     // when the newest life began, at the earliest
	held    map[string][]string // the entries of each queue before the fault
	forgot  map[string]bool     // the queues whose first entry was seen to be lost
	open    map[string]bool     // the sessions that clients have
	waiters map[string][]string // of the peers
	holders map[string]string   // of the peers, by queue

	undo func(context.Context) error // ends the fault that is in effect
}

var (
	_ trial.Service   = (*Service)(nil)
	_ trial.Breaker   = (*Service)(nil)
	_ trial.Forgetter = (*Service)(nil)
)

// Start starts the servers of a setup, "" for the default. ctx bounds only the start.
func Start(ctx context.Context, setup string) (*Service, error) {
	if setup == "" {
		setup = Alone
	}
	s := &Service{
		setup: setup, ttl: trial.TTL, admins: map[*redistest.Server]rueidis.Client{}, forgot: map[string]bool{}, open: map[string]bool{},
		waiters: map[string][]string{}, holders: map[string]string{},
	}
	err := s.start(ctx)
	if err == nil && setup != Five {
		err = s.keep(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close()) //nolint:contextcheck // it bounds itself
	}
	return s, nil
}

// keep makes the root and opens a session that has no lock most of the time, as that of another program. It
// ends the sessions of processes that were killed.
func (s *Service) keep(ctx context.Context) (err error) { //nolint:contextcheck // the session outlives the start
	client, o := s.target().option(), s.options()
	if err := redisbackend.Init(ctx, client, o); err != nil {
		return err
	}
	s.keeper, err = redisbackend.Open(ctx, client, o)
	if err != nil {
		return err
	}
	var resting context.Context
	resting, s.resting = context.WithCancel(context.Background()) //nolint:contextcheck // until Close
	s.rested = make(chan struct{})
	m := mutex.New(s.keeper, "keeper")
	go func() { // ends with Close
		defer close(s.rested)
		for resting.Err() == nil {
			wait(resting, time.Second)
			h, err := m.Lock(resting)
			if err == nil {
				_ = h.Unlock() // its session may be lost
			}
		}
	}()
	return nil
}

// options are those of a session that the service knows.
func (s *Service) options() *redisbackend.Options {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := func(open bool) func(session.Event) {
		return func(e session.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if open {
				s.open[e.Session] = true
			} else {
				delete(s.open, e.Session)
			}
		}
	}
	return &redisbackend.Options{
		Root: root, MaxTTL: maxTTL, Nodes: s.nodes(),
		Session: session.Options{
			TTL: s.ttl, Logger: slog.New(slog.DiscardHandler),
			Hooks: session.Hooks{SessionOpened: note(true), SessionLost: note(false), SessionClosed: note(false)},
		},
	}
}

// target is where clients find the servers, without proxies of their own.
type target struct {
	Addrs []string
	Set   string // the name of the master, of Sentinels
	Nodes int
}

func (s *Service) target() target {
	t := target{Nodes: s.nodes()}
	if s.sentinels != nil {
		t.Addrs, t.Set = s.sentinels.Addrs(), redistest.MasterName
		return t
	}
	for _, server := range s.servers {
		t.Addrs = append(t.Addrs, server.Addr())
	}
	return t
}

// option returns the options of a client of Fairlock.
func (t target) option() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: t.Addrs, Username: app, Password: app, Sentinel: rueidis.SentinelOption{MasterSet: t.Set}}
}

func (s *Service) setTTL(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl = ttl
}

func (s *Service) setPrimary(server *redistest.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.primary = server
}

func (s *Service) master() *redistest.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.primary
}

// begins notes that a new life begins, at the earliest now.
func (s *Service) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = now()
}

func (s *Service) begunAt() history.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// Name implements trial.Service.
func (s *Service) Name() string { return Name }

// Transport implements trial.Service: the setup.
func (s *Service) Transport() string { return s.setup }

// Margin implements trial.Service: redisbackend's default.
func (s *Service) Margin() time.Duration { return max(trial.TTL/10, 100*time.Millisecond) }

// Locks implements trial.Service.
func (s *Service) Locks() []string {
	switch s.setup {
	case Five:
		return []string{Redlock}
	case Alone, Logged, Sentinels:
		return []string{trial.Ours, Redsync, Redislock}
	}
	return []string{trial.Ours}
}

// Members implements trial.Service: the faults at servers are those of Breaks.
func (s *Service) Members() []trial.Member { return nil }

// Leader implements trial.Service: it waits until the master answers.
func (s *Service) Leader(ctx context.Context) (int, error) {
	return 0, s.do(ctx, func(ctx context.Context, c rueidis.Client) error { return c.Do(ctx, c.B().Ping().Build()).Error() })
}

// MoveLeader implements trial.Service.
func (s *Service) MoveLeader(context.Context, int) error { return errors.ErrUnsupported }

// Compact implements trial.Service.
func (s *Service) Compact(context.Context) error { return errors.ErrUnsupported }

// Quota implements trial.Service: a break takes the memory away.
func (s *Service) Quota(context.Context) (func(context.Context) error, error) {
	return nil, errors.ErrUnsupported
}

// Healthy implements trial.Service: the master answers, and its replicas have what it has.
func (s *Service) Healthy(ctx context.Context) error {
	if _, err := s.Leader(ctx); err != nil {
		return err
	}
	if s.cluster != nil {
		return s.clusterHealthy(ctx)
	}
	if s.nodes() == 1 {
		return nil
	}
	if s.sentinels != nil { // on a busy machine they may have replaced it without a fault
		master, err := s.sentinels.Master(ctx)
		if err != nil {
			return err
		}
		s.setPrimary(master)
	}
	for _, r := range s.replicas() {
		if err := retry(ctx, 5*time.Second, r.CatchUp); err != nil {
			return err
		}
	}
	return nil
}

// do has the operator send requests to the master, which may be carried out more than once, until they succeed.
func (s *Service) do(ctx context.Context, f func(context.Context, rueidis.Client) error) error {
	return retry(ctx, attemptTimeout, func(ctx context.Context) error {
		c, err := s.admin(ctx, s.master())
		if err != nil {
			return err
		}
		return f(ctx, c)
	})
}

// admin returns the operator's client of a server.
func (s *Service) admin(ctx context.Context, server *redistest.Server) (rueidis.Client, error) {
	s.mu.Lock()
	c := s.admins[server]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.admins[server]
	if other != nil {
		c.Close()
		return other, nil
	}
	s.admins[server] = c
	return c, nil
}

// retry calls f until it succeeds or ctx ends.
func retry(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, timeout)
		err := f(one)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		wait(ctx, 10*time.Millisecond)
	}
}

// Order implements trial.Service: the server does not record it.
func (s *Service) Order(context.Context, string, string) ([]history.Change, error) {
	return nil, errors.ErrUnsupported
}

// Forgot implements trial.Forgetter.
func (s *Service) Forgot(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgot[queue]
}

// Ended implements trial.Breaker.
func (s *Service) Ended(entry string) bool {
	id, _, _ := strings.Cut(entry, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	return !strings.Contains(entry, ":") && !s.open[id]
}

// Sweep implements trial.Breaker: a client that comes sees all sessions within a second, ends them when they
// have not changed for their TTL, and has another look a second later. The longest TTL is maxTTL.
func (s *Service) Sweep() time.Duration { return 5 * maxTTL / 2 }

// Close implements trial.Service.
func (s *Service) Close() error {
	if s.resting != nil {
		s.resting()
		<-s.rested
	}
	if s.keeper != nil {
		_ = s.keeper.Close() // its server may be stopped
	}
	s.mu.Lock()
	for _, c := range s.admins {
		c.Close()
	}
	s.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

func now() history.Instant { return trial.Now() }

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
}
