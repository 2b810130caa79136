package onredis

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// The peers. A careful program extends its lock while it holds, and checks before each access that the
// time for which the lock was acquired or extended, counted from the request, is not over.
const (
	Redsync   = "redsync"        // on the master
	Redlock   = "redsync (five)" // on five servers, by the algorithm Redlock
	Redislock = "redislock"      // on the master
)

// keepAlive is how often a careful program extends, and how long it waits for the answer.
const keepAlive = trial.TTL / 5

// retryPause is how long a waiter waits before it tries again.
const retryPause = 20 * time.Millisecond

// peer is a client of a peer's lock.
type peer struct {
	*network
	lock  string
	s     *Service // nil in a process
	owner string
	all   []*redis.Client
	sync  *redsync.Redsync
	locks *redislock.Client
}

func openPeer(n *network, lock string, s *Service) *peer {
	c := &peer{network: n, lock: lock, s: s, owner: rand.Text(), all: n.clients()}
	if lock == Redislock {
		c.locks = redislock.New(c.all[0])
		return c
	}
	var pools []redsyncredis.Pool
	for _, one := range c.all {
		pools = append(pools, goredis.NewPool(one))
	}
	c.sync = redsync.New(pools...)
	return c
}

// clients returns clients of all servers, each of which is asked alone; of servers that Sentinels watch, one
// client of the master.
func (n *network) clients() (all []*redis.Client) {
	redis.SetLogger(quiet{})
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		return n.dial(ctx, &net.Dialer{Timeout: keepAlive}, addr)
	}
	if n.Set != "" {
		return []*redis.Client{redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: n.Set, SentinelAddrs: n.Addrs, Username: app, Password: app, Dialer: dial, ContextTimeoutEnabled: true,
			MaxRetries: -1, ReadTimeout: keepAlive, WriteTimeout: keepAlive,
		})}
	}
	for _, addr := range n.Addrs {
		all = append(all, redis.NewClient(&redis.Options{
			Addr: addr, Username: app, Password: app, Dialer: dial, ContextTimeoutEnabled: true,
			MaxRetries: -1, ReadTimeout: keepAlive, WriteTimeout: keepAlive,
		}))
	}
	return all
}

// quiet logs nothing: faults are what the trials make.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Kinds implements trial.Client.
func (c *peer) Kinds() []string { return nil }

// Session implements trial.Client.
func (c *peer) Session() string { return c.lock + ":" + c.owner }

// Acquire implements trial.Client.
func (c *peer) Acquire(ctx context.Context, queue history.Queue, _ trial.Request) (trial.Hold, error) {
	if c.s != nil {
		c.s.waits(queue.Name, c.Session(), true)
		defer c.s.waits(queue.Name, c.Session(), false)
	}
	for {
		h, err := c.try(ctx, queue.Name)
		if err == nil {
			if c.s != nil {
				c.s.holds(queue.Name, c.Session())
			}
			return h, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		wait(ctx, retryPause)
	}
}

// try tries once.
func (c *peer) try(ctx context.Context, queue string) (*peerHold, error) {
	h := &peerHold{c: c, queue: queue}
	if c.locks != nil {
		sent := time.Now()
		one, cancel := context.WithTimeout(ctx, keepAlive)
		defer cancel()
		l, err := c.locks.Obtain(one, queue, trial.TTL, nil)
		if err != nil {
			return nil, err
		}
		h.lasts(sent.Add(trial.TTL))
		h.extend = func(ctx context.Context) error {
			sent := time.Now()
			err := l.Refresh(ctx, trial.TTL, nil)
			if err == nil {
				h.lasts(sent.Add(trial.TTL))
			}
			if errors.Is(err, redislock.ErrNotObtained) {
				return err
			}
			return nil
		}
		h.drop = func(ctx context.Context) (bool, error) {
			err := l.Release(ctx)
			if errors.Is(err, redislock.ErrLockNotHeld) {
				return false, nil
			}
			return err == nil, err
		}
		h.watch() //nolint:contextcheck // it bounds itself
		return h, nil
	}
	m := c.sync.NewMutex(queue, redsync.WithExpiry(trial.TTL), redsync.WithTries(1))
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	h.lasts(m.Until())
	h.extend = func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if ok {
			h.lasts(m.Until())
		}
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrExtendFailed) && len(c.all) == 1 {
			return err
		}
		return nil
	}
	h.drop = func(ctx context.Context) (bool, error) {
		ok, err := m.UnlockContext(ctx)
		if errors.Is(err, redsync.ErrLockAlreadyExpired) {
			return false, nil
		}
		return ok, err
	}
	h.watch() //nolint:contextcheck // it bounds itself
	return h, nil
}

// Close implements trial.Client.
func (c *peer) Close() error {
	c.Heal()
	for _, one := range c.all {
		_ = one.Close() // its server may be stopped
	}
	return c.Proxies.Close()
}

// peerHold is a hold of a peer's lock.
type peerHold struct {
	c      *peer
	queue  string
	until  atomic.Int64 // on the clock of the client
	extend func(context.Context) error
	drop   func(context.Context) (bool, error)

	once sync.Once
	done chan struct{}
	stop context.CancelFunc // of what extends it
	rest chan struct{}      // closed when that has ended
}

func (h *peerHold) lasts(until time.Time) { h.until.Store(until.UnixNano()) }

func (h *peerHold) inTime() bool { return time.Now().UnixNano() < h.until.Load() }

func (h *peerHold) end() { h.once.Do(func() { close(h.done) }) }

// watch extends the hold again and again, until it is released, the server says that it is over, or its
// time is over.
func (h *peerHold) watch() {
	ctx, stop := context.WithCancel(context.Background())
	h.done, h.stop, h.rest = make(chan struct{}), stop, make(chan struct{})
	go func() { // ends with stop, or with the hold
		defer close(h.rest)
		next := time.Now().Add(keepAlive)
		for ctx.Err() == nil {
			if !h.inTime() {
				h.end()
				return
			}
			wait(ctx, min(keepAlive/20, time.Until(time.Unix(0, h.until.Load()))))
			if time.Now().Before(next) || ctx.Err() != nil {
				continue
			}
			one, cancel := context.WithTimeout(ctx, keepAlive)
			err := h.extend(one)
			cancel()
			if err != nil && ctx.Err() == nil {
				h.end()
				return
			}
			next = time.Now().Add(keepAlive)
		}
	}()
}

func (h *peerHold) over() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

func (h *peerHold) Token() int64          { return 0 }
func (h *peerHold) Place() int64          { return 0 }
func (h *peerHold) Entry() string         { return h.c.Session() }
func (h *peerHold) Held() bool            { return !h.over() && h.inTime() }
func (h *peerHold) Done() <-chan struct{} { return h.done }

func (h *peerHold) Release(ctx context.Context) (history.Outcome, error) {
	h.stop()
	<-h.rest
	if h.over() {
		return history.Lost, nil
	}
	ok, err := h.drop(ctx)
	switch {
	case err != nil:
		return history.Pending, err
	case !ok:
		return history.Lost, nil
	}
	return history.Released, nil
}

// waits notes the client that waits for a lock: the server does not know it.
func (s *Service) waits(queue, owner string, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins {
		s.waiters[queue] = append(s.waiters[queue], owner)
	} else {
		s.waiters[queue] = slices.DeleteFunc(s.waiters[queue], func(w string) bool { return w == owner })
	}
}

// holds notes the client that holds.
func (s *Service) holds(queue, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[queue] = owner
}

// peerEntries returns the holder and the waiters.
func (s *Service) peerEntries(ctx context.Context, lock, queue string) (all []string, err error) {
	there := 0
	servers := s.servers
	if lock != Redlock {
		servers = []*redistest.Server{s.master()}
	}
	for _, server := range servers {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		c, connectErr := s.admin(one, server)
		if connectErr == nil {
			getErr := c.Do(one, c.B().Get().Key(queue).Build()).Error()
			switch {
			case getErr == nil:
				there++
			case !rueidis.IsRedisNil(getErr):
				err = getErr
			}
		} else {
			err = connectErr
		}
		cancel()
	}
	if err != nil && lock != Redlock {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if 2*there > len(servers) {
		holder := s.holders[queue]
		if holder == "" {
			holder = lock + ":process"
		}
		all = append(all, holder)
	}
	return append(all, s.waiters[queue]...), nil
}

// endPeer deletes the keys of what a client of a peer's lock holds.
func (s *Service) endPeer(ctx context.Context, session string) error {
	s.mu.Lock()
	var keys []string
	for queue, owner := range s.holders {
		if owner == session {
			keys = append(keys, queue)
		}
	}
	s.mu.Unlock()
	if len(keys) == 0 {
		return errors.New("onredis: " + strings.ReplaceAll(session, ":", " ") + " holds nothing")
	}
	for _, server := range s.servers {
		c, err := s.admin(ctx, server)
		if err != nil {
			return err
		}
		if err := c.Do(ctx, c.B().Del().Key(keys...).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}
