// Package testnet breaks networks for tests: proxies that hold, lose, delay and reset
// what passes, and certificates that are good, expired or for another host. The
// servers of packages etcdtest and zktest stand behind such proxies.
//
// A [Proxy] stands between a client and a server, and breaks their connections on
// purpose, each direction on its own: package fault has the directions. A proxy knows
// nothing of the protocol that it carries.
//
// Two things that simpler proxies get wrong matter to the tests that use it.
// A held direction loses nothing: what arrived meanwhile is delivered in order
// by Heal, as after a network partition. And a delay is a delay: every chunk
// has a time when it is due, so that throughput stays what it was.
package testnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Options are the settings of a Proxy. Nil is the same as the zero value.
type Options struct {
	// Label names a connection from the first bytes that its client sends, so
	// that HoldFrom can single out some clients of a shared proxy. It is called
	// with all bytes so far, at most 16 KiB, until ok; nothing is passed on
	// before. Nil leaves every connection without a label, and so does a
	// client that ends or fills the 16 KiB without being recognized.
	Label func(head []byte) (label string, ok bool)

	// Rewrite changes the first bytes that the client sends, such as an address at which it
	// wants to be called back. It is called like Label, until both are ok, and
	// what it returns then is passed on in place of head. Nil changes nothing,
	// and so does not being ok in time.
	Rewrite func(head []byte) (instead []byte, ok bool)

	// DialRetry keeps an accepted connection while the server refuses ours,
	// and goes on trying for as long as the client stays. False resets the
	// client's connection at once, which is as near as a proxy comes to a port
	// where no server listens. Some clients punish "accepted, then reset" with
	// seconds of backoff (a ZooKeeper follower that looks for its new leader
	// does): use true for those.
	DialRetry bool
}

func (o *Options) recognize(head []byte) (label string, instead []byte, ok bool) {
	if o.Label != nil {
		label, ok = o.Label(head)
		if !ok {
			return "", nil, false
		}
	}
	if o.Rewrite != nil {
		instead, ok = o.Rewrite(head)
		return label, instead, ok
	}
	return label, head, true
}

// Proxy forwards the connections made to Addr to one server. New makes one. All
// methods may be called at any time from any goroutine; after Close they have no
// effect.
type Proxy struct {
	target string
	opts   Options
	l      net.Listener
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accept loop and every connection

	stats counters

	mu      sync.Mutex
	closed  bool
	refuse  bool
	all     faults             // for every connection
	from    map[string]*faults // for connections with this label, on top of all
	conns   map[*conn]struct{}
	changed chan struct{} // closed and replaced whenever a fault changes
}

// New listens on a free port of the loopback interface and forwards to target, a
// "host:port" that need not be listening yet. It fails when there is no port to
// be had. The caller closes the proxy.
//
//nolint:contextcheck // a proxy outlives the call that made it; Close ends it
func New(target string, opts *Options) (*Proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("testnet: listen: %w", err)
	}
	p := &Proxy{
		target:  target,
		l:       l,
		cancel:  cancel,
		from:    make(map[string]*faults),
		conns:   make(map[*conn]struct{}),
		changed: make(chan struct{}),
	}
	if opts != nil {
		p.opts = *opts
	}
	p.wg.Go(func() { p.accept(ctx) }) // ends when Close closes the listener
	return p, nil
}

// Addr is the "host:port" to give to clients.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Target is the "host:port" of the server behind.
func (p *Proxy) Target() string { return p.target }

// Close resets every connection, stops listening, and returns when all
// goroutines of the proxy have ended. Closing twice is allowed.
func (p *Proxy) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()

	var err error
	if !again {
		err = p.l.Close()
	}
	p.cancel()
	p.Reset()
	p.wg.Wait()
	if err != nil {
		return fmt.Errorf("testnet: close: %w", err)
	}
	return nil
}

// accept runs until the listener is closed.
func (p *Proxy) accept(ctx context.Context) {
	for {
		nc, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or the client disconnected at once
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryEvery):
				continue
			}
		}
		client := nc.(*net.TCPConn) // the listener is TCP
		p.stats.accepted.Add(1)
		c := newConn(p, client)
		if !p.admit(c) {
			p.stats.refused.Add(1)
			hangUp(client)
			continue
		}
		p.wg.Go(func() { // ends when either side ends, at Reset or at Close
			defer p.forget(c)
			c.run(ctx)
		})
	}
}

// admit adds c, unless connections are refused or the proxy is closed: a connection
// accepted during Close must not outlive it.
func (p *Proxy) admit(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
