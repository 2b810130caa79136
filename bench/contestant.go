package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// ttl is everybody's, in seconds: concurrency.Session's own, and long enough
// for 10 000 sessions to leave the server alone.
const ttl = 60

// mostClients is over how many clients contenders with own sessions spread.
const mostClients = 10

// A contestant is a lock in one way of using it.
type contestant struct {
	name    string
	use     string // how it is used, which both sides of a comparison share
	against string // whom it is compared with
	ours    bool
	alone   bool // a process of its own for every contender, as far as clients last
}

const (
	fairlock           = "fairlock"
	fairlockOneSession = "fairlock, one session"
	peer               = "Mutex"
	peerOneClient      = "Mutex, one client"
)

// apart are contenders in processes of their own, together those in one.
func apart() []contestant {
	const use = "a session each"
	return []contestant{
		{name: fairlock, use: use, against: peer, ours: true, alone: true},
		{name: peer, use: use, against: fairlock, alone: true},
	}
}

func together() []contestant {
	const use = "one process"
	return []contestant{
		{name: fairlockOneSession, use: use, against: peerOneClient, ours: true},
		{name: peerOneClient, use: use, against: fairlockOneSession},
	}
}

func everybody() []contestant { return append(apart(), together()...) }

// contestantOf returns the contestant of that name, or one that nobody is
// compared with.
func contestantOf(name string) contestant {
	for _, c := range everybody() {
		if c.name == name {
			return c
		}
	}
	return contestant{name: name, use: name}
}

// A contender locks and unlocks, one lock at a time.
type contender interface {
	lock(ctx context.Context, name string) (unlock func() error, err error)
}

// A team is the contenders of one contestant and what they run on.
type team struct {
	contestant
	clients    []client
	contenders []contender
	sessions   []func() error // each closes one
}

// team makes n contenders, over at most so many clients.
func (s *stand) team(ctx context.Context, c contestant, n, clients int) (*team, error) {
	if !c.alone {
		clients = 1
	}
	cs, err := s.clients(min(n, clients))
	if err != nil {
		return nil, err
	}
	t := &team{contestant: c, clients: cs}
	if err := t.open(ctx, n); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// with runs f with a team that is closed afterwards.
func (s *stand) with(ctx context.Context, c contestant, n, clients int, f func(*team) error) error {
	t, err := s.team(ctx, c, n, clients)
	if err != nil {
		return err
	}
	return errors.Join(f(t), t.close())
}

// open opens sessions: one for each contender, or one for all of ours.
func (t *team) open(ctx context.Context, n int) error {
	if t.ours && !t.alone {
		s, err := openOurs(ctx, t.clients[0])
		if err != nil {
			return err
		}
		t.sessions = []func() error{s.Close}
		for range n {
			t.contenders = append(t.contenders, ourContender{s})
		}
		return nil
	}
	t.contenders, t.sessions = make([]contender, n), make([]func() error, n)
	var g errgroup.Group
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			c := t.clients[i%len(t.clients)]
			if t.ours {
				s, err := openOurs(ctx, c)
				if err != nil {
					return err
				}
				t.contenders[i], t.sessions[i] = ourContender{s}, s.Close
				return nil
			}
			s, err := concurrency.NewSession(c.Client, concurrency.WithTTL(ttl))
			if err != nil {
				return fmt.Errorf("open a session of the peer: %w", err)
			}
			t.contenders[i], t.sessions[i] = peerContender{s}, s.Close
			return nil
		})
	}
	return g.Wait()
}

// prefix is where the line of a lock has its keys.
func (t *team) prefix(name string) string {
	if t.ours {
		return etcdbackend.DefaultRoot + "/" + name + "/"
	}
	return name + "/"
}

// disperse makes all who wait in a line return, in the cheapest way that each
// side has: of ours the sessions end; the peer's waiters would not notice that,
// so their contexts do.
func (t *team) disperse(cancel context.CancelFunc) error {
	if t.ours {
		return t.closeSessions()
	}
	cancel()
	return nil
}

func (t *team) closeSessions() error {
	var g errgroup.Group
	g.SetLimit(64)
	for _, end := range t.sessions {
		if end != nil {
			g.Go(end)
		}
	}
	t.sessions = nil
	return g.Wait()
}

func (t *team) close() error {
	return errors.Join(t.closeSessions(), closeClients(t.clients))
}

// closeTeams closes those that are not nil.
func closeTeams(ts []*team) error {
	var errs []error
	for _, t := range ts {
		if t != nil {
			errs = append(errs, t.close())
		}
	}
	return errors.Join(errs...)
}

// ourContender locks through a session of this library.
type ourContender struct{ s *session.Session }

func openOurs(ctx context.Context, c client) (*session.Session, error) {
	return etcdbackend.Open(ctx, c.Client, &etcdbackend.Options{
		Session: session.Options{TTL: ttl * time.Second},
	})
}

func (c ourContender) lock(ctx context.Context, name string) (func() error, error) {
	h, err := mutex.New(c.s, name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return h.Unlock, nil
}

// peerContender locks through a session of the peer. It keeps its key's name
// from one acquisition to the next, as long as the session lives.
type peerContender struct{ s *concurrency.Session }

func (c peerContender) lock(ctx context.Context, name string) (func() error, error) {
	m := concurrency.NewMutex(c.s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return m.Unlock(context.WithoutCancel(ctx)) }, nil
}
