package redisstand

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/redisbackend"
)

// ttl is the TTL of all sessions and keys, the greatest of the root.
const ttl = redisbackend.DefaultMaxTTL

// Open implements stand.Stand. A session of ours is a process: it has its three connections, and shares none of
// them. So clients does not matter.
func (s *server) Open(ctx context.Context, contestant stand.Contestant, n, _ int) (*stand.Team, error) {
	clients := n
	if !contestant.Alone {
		clients = max(contestant.Sessions, 1)
	}
	periodic := theirPeriodic
	if contestant.Ours {
		periodic = oursPeriodic
	}
	tallies := make([]*stand.Tally, clients)
	for i := range tallies {
		tallies[i] = stand.NewTally(requestKinds(), periodic...)
	}
	p := stand.Parts{
		Tallies: tallies, Stop: stand.StopByContext, Busy: func() bool { return false },
		QueueOf: func(name string) string { return contestant.Name + "/" + name },
	}
	if contestant.Ours {
		if err := redisbackend.Init(ctx, rueidis.ClientOption{InitAddress: []string{s.direct}}, nil); err != nil {
			return nil, err //nolint:wrapcheck // it names itself
		}
		p.Stop = stand.StopByClose
		p.QueueOf = func(name string) string { return "{" + redisbackend.DefaultRoot + "}:q:" + name }
		p.Session = func(i int) (stand.Contender, func() error, error) { return ours(ctx, s.at, tallies[i], contestant) }
		return stand.NewTeam(contestant, n, !contestant.Alone, p) //nolint:wrapcheck // it is of this module
	}
	p.Session = func(i int) (stand.Contender, func() error, error) {
		o := &redis.Options{Addr: s.at, Dialer: dialer(tallies[i])}
		if contestant.Alone {
			o.PoolSize = 1
		}
		client := redis.NewClient(quiet(o))
		return peerOf(contestant.Name, client, &s.Waiting, p.QueueOf), client.Close, client.Ping(ctx).Err()
	}
	return stand.NewTeam(contestant, n, !contestant.Alone, p) //nolint:wrapcheck // it is of this module
}

// quiet switches off what a client sends beside the commands of its lock.
func quiet(o *redis.Options) *redis.Options {
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// ours opens a session.
func ours(ctx context.Context, addr string, t *stand.Tally, c stand.Contestant) (stand.Contender, func() error, error) {
	dial := dialer(t)
	s, err := redisbackend.Open(ctx, rueidis.ClientOption{
		InitAddress: []string{addr},
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		},
	}, &redisbackend.Options{Session: c.Options(ttl)})
	if err != nil {
		return nil, nil, fmt.Errorf("open a session: %w", err)
	}
	return stand.Of(s), s.Close, nil
}

// peerOf returns a contender with a key.
func peerOf(name string, client *redis.Client, waiting *stand.Waiting, queueOf func(string) string) stand.Contender {
	lock := lockRedislock(bsm.New(client), pauseOf(name))
	if strings.HasPrefix(name, "redsync") {
		lock = lockRedsync(redsync.New(pool.NewPool(client)), pauseOf(name))
	}
	return peer{lock, waiting, queueOf}
}

// pauseOf returns the time between two attempts of a peer, 0 for the default of its library.
func pauseOf(name string) time.Duration {
	switch name {
	case redsyncSlow:
		return 0
	case redsyncFast, RedislockFast:
		return time.Millisecond
	case redislockSlow:
		return 100 * time.Millisecond
	}
	return 5 * time.Millisecond
}

// peer is a contender of a peer. It counts as one of the queue while it waits or holds.
type peer struct {
	lock    func(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	waiting *stand.Waiting
	queueOf func(string) string
}

// Lock implements stand.Contender.
func (p peer) Lock(ctx context.Context, name string) (func() error, error) {
	return p.waiting.Wrap(p.queueOf(name), func() (func() error, error) { //nolint:wrapcheck // it is that of lock
		unlock, err := p.lock(ctx, name)
		if err != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		return func() error { return unlock(context.WithoutCancel(ctx)) }, nil
	})
}

// lockRedsync locks with redsync. It tries until its context ends.
func lockRedsync(r *redsync.Redsync, pause time.Duration) func(context.Context, string) (func(context.Context) error, error) {
	options := []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1 << 30)}
	if pause > 0 {
		options = append(options, redsync.WithRetryDelay(pause))
	}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		m := r.NewMutex("redsync/"+name, options...)
		if err := m.LockContext(ctx); err != nil {
			return nil, fmt.Errorf("redsync: %w", err)
		}
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err //nolint:wrapcheck // it names itself
		}, nil
	}
}

// lockRedislock locks with redislock. Without a deadline it would try for the TTL only.
func lockRedislock(c *bsm.Client, pause time.Duration) func(context.Context, string) (func(context.Context) error, error) {
	options := &bsm.Options{RetryStrategy: bsm.LinearBackoff(pause)}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		l, err := c.Obtain(ctx, "redislock/"+name, ttl, options)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names itself
		}
		return l.Release, nil
	}
}
