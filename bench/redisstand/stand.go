// Package redisstand compares fairlock on Redis with the two locks that most programs use there: redsync,
// with one server, and redislock. In both a lock is a key, and a waiter tries to set it again and again.
package redisstand

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/bench/stand"
)

// A peer's interval between two attempts decides what it is good at: a short one finds a lock soon that was
// released, a long one leaves it to the client that released it. So each library has several, its default
// or that of its documentation among them, and a goal compares with the fastest.
const (
	Redsync     = "redsync, 5 ms"
	redsyncFast = "redsync, 1 ms"
	redsyncSlow = "redsync, 50 – 250 ms" // its default

	RedislockFast = "redislock, 1 ms"
	redislock     = "redislock, 5 ms"
	redislockSlow = "redislock, 100 ms" // that of its documentation

	redsyncOneClient = "redsync, 5 ms, one client"
)

// Peers are the names of the peers with a client for each contender. None is fair: any waiter may be next.
func Peers() []string {
	return []string{Redsync, redsyncFast, redsyncSlow, redislock, RedislockFast, redislockSlow}
}

// Service returns Redis.
func Service() stand.Service {
	const alone, together = "a session each", "one process"
	s := stand.Service{
		Name: "Redis", Peer: Redsync,
		Contestants: []stand.Contestant{
			{Name: stand.Ours, Use: alone, Ours: true, Alone: true},
			{Name: Redsync, Use: alone, Alone: true},
			{Name: stand.OursOneSession, Use: together, Ours: true},
			{Name: redsyncOneClient, Use: together},
		},
		Attach: attach,
	}
	for _, name := range Peers()[1:] {
		s.Contestants = append(s.Contestants, stand.Contestant{Name: name, Use: name, Alone: true, Against: stand.Ours})
	}
	return s
}

// server is a server, with a connection for the stand itself.
type server struct {
	stand.Waiting

	at      string
	direct  string
	control *redis.Client
	asked   atomic.Int64 // commands of control
}

var (
	_ stand.Stand      = (*server)(nil)
	_ stand.Connected  = (*server)(nil)
	_ stand.Metered    = (*server)(nil)
	_ stand.Processors = (*server)(nil)
)

func attach(ctx context.Context, at stand.Addresses) (stand.Stand, error) {
	s := &server{at: at.Clients[0], direct: at.Direct[0]}
	s.control = redis.NewClient(quiet(&redis.Options{Addr: s.direct, PoolSize: 1}))
	_, err := s.ask(ctx, "ping")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ask sends a command of the stand itself.
func (s *server) ask(ctx context.Context, command ...any) (*redis.Cmd, error) {
	s.asked.Add(1)
	answer := s.control.Do(ctx, command...)
	if answer.Err() != nil {
		return nil, fmt.Errorf("%v: %w", command[0], answer.Err())
	}
	return answer, nil
}

// info returns the fields of sections of INFO.
func (s *server) info(ctx context.Context, sections ...any) (map[string]string, error) {
	answer, err := s.ask(ctx, append([]any{"info"}, sections...)...)
	if err != nil {
		return nil, err
	}
	text, err := answer.Text()
	if err != nil {
		return nil, fmt.Errorf("info: %w", err)
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		all[name] = value
	}
	return all, nil
}

// Close implements stand.Stand.
func (s *server) Close() error { return s.control.Close() } //nolint:wrapcheck // it names itself

// Length implements stand.Stand. The server does not know the waiters of the peers.
func (s *server) Length(ctx context.Context, queue string) (int, error) {
	n, theirs := s.Waiters(queue)
	if theirs {
		return n, nil
	}
	answer, err := s.ask(ctx, "zcard", queue)
	if err != nil {
		return 0, err
	}
	return answer.Int() //nolint:wrapcheck // it names itself
}

// Fill implements stand.Stand. It returns an error, because a peer has no entries.
func (s *server) Fill(_ context.Context, queue string, n int) error {
	if n > 0 {
		return fmt.Errorf("%d entries without an owner in %q: a key has none", n, queue)
	}
	return nil
}

// Clear implements stand.Stand. Nothing is left in a queue here.
func (s *server) Clear(context.Context, string) error { return nil }

// Connections implements stand.Connected.
func (s *server) Connections(ctx context.Context) (int, error) {
	all, err := s.info(ctx, "clients")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(all["connected_clients"])
	return n - 1, err //nolint:wrapcheck // it names itself
}

// ServerTime implements stand.Processors. It includes the few requests of the stand itself.
func (s *server) ServerTime(ctx context.Context) (time.Duration, error) {
	spent, err := s.Spent(ctx)
	return spent.CPU, err
}

// Spent implements stand.Metered. The commands that a script runs count too.
func (s *server) Spent(ctx context.Context) (stand.Spent, error) {
	own := s.asked.Load()
	all, err := s.info(ctx, "commandstats", "cpu")
	if err != nil {
		return stand.Spent{}, err
	}
	spent := stand.Spent{Commands: -own}
	for name, value := range all {
		if !strings.HasPrefix(name, "cmdstat_") {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return stand.Spent{}, fmt.Errorf("info: %s: %w", name, err)
		}
		spent.Commands += n
	}
	for _, name := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		seconds, err := strconv.ParseFloat(all[name], 64)
		if err != nil {
			return stand.Spent{}, fmt.Errorf("info: %s: %w", name, err)
		}
		spent.CPU += time.Duration(seconds * float64(time.Second))
	}
	return spent, nil
}
