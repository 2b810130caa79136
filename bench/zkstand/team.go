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

// peerRoot is the folder of the peer's queues.
const peerRoot = "/zklock"

// Open implements stand.Stand. A session is a connection here, so each contender with its own
// session has a client, whatever number of clients the caller asks for.
func (e *ensemble) Open(ctx context.Context, contestant stand.Contestant, n, _ int) (*stand.Team, error) {
	clients := 1
	if contestant.Alone {
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
		QueueOf: func(name string) string { return peerRoot + "/" + name },
		Busy:    func() bool { return slices.ContainsFunc(tallies, (*stand.Tally).Busy) },
		Session: func(i int) (stand.Contender, func() error, error) {
			conn, end, err := e.peer(ctx, counters[i])
			return peer{conn}, end, err
		},
		// A connection that is closed while requests are under way may hang for ever, and
		// those requests with it (flushRequests of go-zookeeper 1.0.4).
		Stop: stand.StopByTurn,
	}
	switch {
	case contestant.Bare:
		p.Stop = stand.StopByContext
		p.QueueOf = func(name string) string { return bareRoot + "/" + name }
		p.Session = func(i int) (stand.Contender, func() error, error) {
			conn, end, err := e.peer(ctx, counters[i])
			return bare{conn}, end, err
		}
	case contestant.Ours:
		p.Stop = stand.StopByClose
		p.QueueOf = func(name string) string { return zkbackend.DefaultRoot + "/" + name }
		p.Session = func(i int) (stand.Contender, func() error, error) { return e.ours(ctx, counters[i]) }
	}
	return stand.NewTeam(contestant, n, !contestant.Alone, p)
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

// peer opens a connection of the peer's library, with its session.
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

// peer locks through a connection of the peer. A zk.Lock is good for one acquisition, so each
// acquisition makes one, which costs nothing.
type peer struct{ conn *zk.Conn }

// Lock implements stand.Contender. It ignores ctx: zk.Lock blocks until it has acquired or its
// connection is closed.
func (p peer) Lock(_ context.Context, name string) (func() error, error) {
	l := zk.NewLock(p.conn, peerRoot+"/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, errors.Join(errPeer, err)
	}
	return l.Unlock, nil
}

// errPeer marks errors of the peer, because the library's own begin only with "zk".
var errPeer = errors.New("lock of the peer")
