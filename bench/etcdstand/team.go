package etcdstand

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/etcdbackend"
)

// ttl is the TTL of all sessions, in seconds. It is the default of concurrency.Session, and long
// enough that 10 000 sessions are little load for the server.
const ttl = 60

// Open implements stand.Stand. Two contenders of the peer on one session would
// own the lock together, so they have a session each even in one process.
func (c *cluster) Open(ctx context.Context, contestant stand.Contestant, n, clients int) (*stand.Team, error) {
	if !contestant.Alone {
		clients = 1
	}
	cs, tallies, err := c.clients(min(n, clients))
	if err != nil {
		return nil, err
	}
	p := stand.Parts{
		Tallies: tallies,
		QueueOf: func(name string) string { return name + "/" },
		Busy:    func() bool { return len(c.gate) > 0 },
		Session: func(i int) (stand.Contender, func() error, error) {
			s, err := concurrency.NewSession(cs[i], concurrency.WithTTL(ttl))
			if err != nil {
				return nil, nil, fmt.Errorf("open a session of the peer: %w", err)
			}
			return peer{s}, s.Close, nil
		},
		Stop: stand.StopByContext,
		Shut: func() error { return closeAll(cs) },
	}
	switch {
	case contestant.Bare:
		p = bareParts(p, cs)
	case contestant.Ours:
		p.QueueOf = func(name string) string { return etcdbackend.DefaultRoot + "/" + name + "/" }
		p.Stop = stand.StopByClose
		p.Session = func(i int) (stand.Contender, func() error, error) {
			s, err := etcdbackend.Open(ctx, cs[i], &etcdbackend.Options{Session: contestant.Options(ttl * time.Second)})
			if err != nil {
				return nil, nil, err
			}
			return stand.Of(s), s.Close, nil
		}
	}
	return stand.NewTeam(contestant, n, contestant.Ours && !contestant.Alone, p)
}

// peer locks through a session of the peer. Every acquisition with the same session uses the
// same key.
type peer struct{ s *concurrency.Session }

// Lock implements stand.Contender.
func (c peer) Lock(ctx context.Context, name string) (func() error, error) {
	m := concurrency.NewMutex(c.s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return m.Unlock(context.WithoutCancel(ctx)) }, nil
}

// Lead implements stand.Candidate. The work ends with the session too.
func (c peer) Lead(ctx context.Context, name string, work func(ctx context.Context)) error {
	e := concurrency.NewElection(c.s, name)
	if err := e.Campaign(ctx, "v"); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the work
		select {
		case <-c.s.Done():
			cancel()
		case <-leading.Done():
		}
	}()
	work(leading)
	if err := e.Resign(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}
