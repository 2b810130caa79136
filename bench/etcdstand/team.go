package etcdstand

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/etcdbackend"
)

// ttl is everybody's, in seconds: concurrency.Session's own, and long enough
// for 10 000 sessions to leave the server alone.
const ttl = 60

// Open implements stand.Stand. Two contenders of the peer on one session would
// own the lock together, so they have a session each even in one process.
func (c *cluster) Open(ctx context.Context, who stand.Contestant, n, clients int) (*stand.Team, error) {
	if !who.Alone {
		clients = 1
	}
	cs, tallies, err := c.clients(min(n, clients))
	if err != nil {
		return nil, err
	}
	p := stand.Parts{
		Tallies: tallies,
		Line:    func(name string) string { return name + "/" },
		Busy:    func() bool { return len(c.gate) > 0 },
		Session: func(i int) (stand.Contender, func() error, error) {
			s, err := concurrency.NewSession(cs[i], concurrency.WithTTL(ttl))
			if err != nil {
				return nil, nil, fmt.Errorf("open a session of the peer: %w", err)
			}
			return peer{s}, s.Close, nil
		},
		Home: stand.EndOfContext,
		Shut: func() error { return closeAll(cs) },
	}
	switch {
	case who.Bare:
		p = bareParts(p, cs)
	case who.Ours:
		p.Line = func(name string) string { return etcdbackend.DefaultRoot + "/" + name + "/" }
		p.Home = stand.EndOfSession
		p.Session = func(i int) (stand.Contender, func() error, error) {
			s, err := etcdbackend.Open(ctx, cs[i], &etcdbackend.Options{Session: who.Options(ttl * time.Second)})
			if err != nil {
				return nil, nil, err
			}
			return stand.Of(s), s.Close, nil
		}
	}
	return stand.NewTeam(who, n, who.Ours && !who.Alone, p)
}

// peer locks through a session of the peer. It keeps its key's name from one
// acquisition to the next, as long as the session lives.
type peer struct{ s *concurrency.Session }

// Lock implements stand.Contender.
func (c peer) Lock(ctx context.Context, name string) (func() error, error) {
	m := concurrency.NewMutex(c.s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return m.Unlock(context.WithoutCancel(ctx)) }, nil
}
