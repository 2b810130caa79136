package zkstand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// peerRoot is below which the lines of the peer are.
const peerRoot = "/zklock"

// Open implements stand.Stand. A session is a connection here, so everybody
// alone has a client of his own, whatever is asked for.
func (e *ensemble) Open(ctx context.Context, who stand.Contestant, n, _ int) (*stand.Team, error) {
	clients := 1
	if who.Alone {
		clients = n
	}
	counters := make([]counter, clients)
	tallies := make([]*stand.Tally, len(counters))
	for i := range counters {
		counters[i] = newCounter()
		tallies[i] = counters[i].Tally
	}
	p := stand.Parts{
		Tallies: tallies,
		Line:    func(name string) string { return peerRoot + "/" + name },
		Busy:    func() bool { return slices.ContainsFunc(tallies, (*stand.Tally).Busy) },
		Session: func(i int) (stand.Contender, func() error, error) {
			conn, end, err := e.peer(ctx, counters[i])
			return peer{conn}, end, err
		},
		// A connection that is closed while requests are under way may hang for
		// ever, and those requests with it (flushRequests of 1.0.4).
		Home: stand.OwnTurn,
	}
	switch {
	case who.Bare:
		p.Home = stand.EndOfContext
		p.Line = func(name string) string { return bareRoot + "/" + name }
		p.Session = func(i int) (stand.Contender, func() error, error) {
			conn, end, err := e.peer(ctx, counters[i])
			return bare{conn}, end, err
		}
	case who.Ours:
		p.Home = stand.EndOfSession
		p.Line = func(name string) string { return zkbackend.DefaultRoot + "/" + name }
		p.Session = func(i int) (stand.Contender, func() error, error) { return e.ours(ctx, counters[i]) }
	}
	return stand.NewTeam(who, n, !who.Alone, p)
}

// ours opens a session of this library.
func (e *ensemble) ours(ctx context.Context, c counter) (stand.Contender, func() error, error) {
	s, err := zkbackend.Open(ctx, e.at.Clients, &zkbackend.Options{
		Session: session.Options{TTL: TTL}, TickTime: Tick, Dial: c.dial,
	})
	if err != nil {
		return nil, nil, err
	}
	return stand.Of(s), s.Close, nil
}

// peer opens a connection of the peer's library, and its session with it.
func (e *ensemble) peer(ctx context.Context, c counter) (*zk.Conn, func() error, error) {
	var once sync.Once
	open := make(chan struct{})
	//nolint:contextcheck // the library's dialers know no contexts, and reconnections outlive ctx
	conn, err := connect(e.at.Clients, TTL,
		func(network, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return c.dial(ctx, network, addr)
		},
		func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				once.Do(func() { close(open) })
			}
		})
	if err != nil {
		return nil, nil, err
	}
	end := func() error {
		conn.Close()
		return nil
	}
	select {
	case <-open:
		return conn, end, nil
	case <-ctx.Done():
		return nil, end, fmt.Errorf("open a session of the peer: %w", ctx.Err())
	}
}

// peer locks through a connection of the peer. A zk.Lock is one place in a line,
// so every acquisition has its own; making one costs nothing.
type peer struct{ conn *zk.Conn }

// Lock implements stand.Contender. It does not heed ctx: zk.Lock waits until its
// turn comes or its connection is closed.
func (p peer) Lock(_ context.Context, name string) (func() error, error) {
	l := zk.NewLock(p.conn, peerRoot+"/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, errors.Join(errPeer, err)
	}
	return l.Unlock, nil
}

// errPeer says whose error it is: the library's say only "zk".
var errPeer = errors.New("lock of the peer")
