package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Finder knows which server takes the writes of a root, or which to ask next. It is safe for
// concurrent use.
//
//	addresses          the next one after each failure; a server that is no master, or not the owner of the
//	                   root's slot in a cluster, counts as a failure
//	MOVED, by a node   the address that it names, until that fails
//	Sentinels          the master that one of them names; the next one is asked after each failure
type Finder struct {
	option rueidis.ClientOption

	mu    sync.Mutex
	next  int    // of the addresses
	moved string // the owner of the slot; "" if it is not known
}

// NewFinder returns a finder with the addresses, the login and the TLS configuration of an option.
func NewFinder(option rueidis.ClientOption) (*Finder, error) {
	if len(option.InitAddress) == 0 {
		return nil, errors.New("no address of a server")
	}
	return &Finder{option: option}, nil
}

// Addresses returns those that were given.
func (f *Finder) Addresses() []string { return slices.Clone(f.option.InitAddress) }

// connect makes a connection to the server that is most likely to take writes.
func (f *Finder) connect(ctx context.Context) (*Node, error) {
	f.mu.Lock()
	addr, moved := f.option.InitAddress[f.next%len(f.option.InitAddress)], f.moved
	f.mu.Unlock()
	if moved != "" {
		addr = moved
	} else if f.option.Sentinel.MasterSet != "" {
		master, err := f.ask(ctx, addr)
		if err != nil {
			f.failed("", "")
			return nil, fmt.Errorf("ask the sentinel %s for the master %q: %w", addr, f.option.Sentinel.MasterSet, err)
		}
		addr = master
	}
	n, err := open(f.option, addr)
	if err != nil {
		f.failed(addr, "")
		return nil, errNoServer(addr, err)
	}
	return n, nil
}

// failed takes in that the server at an address is not the right one, and perhaps which one is.
func (f *Finder) failed(_, moved string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if moved == "" || moved == f.moved {
		f.next++
		moved = ""
	}
	f.moved = moved
}

// ask asks a sentinel for the address of the master.
func (f *Finder) ask(ctx context.Context, sentinel string) (string, error) {
	n, err := open(ToSentinels(f.option), sentinel)
	if err != nil {
		return "", err
	}
	defer n.close()
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	all, err := n.Do(ctx, n.B().Arbitrary("SENTINEL", "GET-MASTER-ADDR-BY-NAME", f.option.Sentinel.MasterSet).Build()).AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err):
		return "", errors.New("it knows no such master")
	case err != nil:
		return "", err //nolint:wrapcheck // connect does
	case len(all) != 2:
		return "", fmt.Errorf("it answers %q", all)
	}
	return net.JoinHostPort(all[0], all[1]), nil
}

// ToSentinels returns how to connect to the sentinels of a client.
func ToSentinels(o rueidis.ClientOption) rueidis.ClientOption {
	o.Username, o.Password, o.AuthCredentialsFn = o.Sentinel.Username, o.Sentinel.Password, nil
	o.TLSConfig, o.SelectDB = o.Sentinel.TLSConfig, 0
	return o
}

// Connect connects to one server, whatever it is. It returns when ctx ends.
func Connect(ctx context.Context, o rueidis.ClientOption, addr string) (*Node, error) {
	type made struct {
		n   *Node
		err error
	}
	done := make(chan made, 1)
	go func() {
		n, err := open(o, addr)
		done <- made{n, err}
	}()
	select {
	case m := <-done:
		return m.n, m.err
	case <-ctx.Done():
		go func() {
			m := <-done
			if m.err == nil {
				m.n.close()
			}
		}()
		return nil, ctx.Err() //nolint:wrapcheck // the caller does
	}
}

// Close ends the connection.
func (n *Node) Close() { n.close() }

// open connects to one server. The client repeats nothing, keeps nothing, and sends nothing by itself.
func open(o rueidis.ClientOption, addr string) (*Node, error) {
	n := &Node{Addr: addr}
	o.InitAddress = []string{addr}
	o.Sentinel = rueidis.SentinelOption{}
	o.ForceSingleClient, o.AlwaysPipelining, o.DisableRetry, o.DisableCache = true, true, true, true
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.PipelineMultiplex = -1 // one connection
	o.ReadBufferEachConn, o.WriteBufferEachConn = 32<<10, 32<<10
	o.ConnLifetime = 0
	if o.Dialer.Timeout == 0 || o.Dialer.Timeout > dialTimeout {
		o.Dialer.Timeout = dialTimeout
	}
	// The client would send a PING every second. The kernel finds out within half a minute that the
	// server's machine is gone, and each request has a timeout.
	o.Dialer.KeepAlive = -1
	o.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
	dial := o.DialCtxFn
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		var conn net.Conn
		var err error
		switch {
		case dial != nil:
			conn, err = dial(ctx, addr, d, t)
		case t != nil:
			conn, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
		default:
			conn, err = d.DialContext(ctx, "tcp", addr)
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // connect does
		}
		return n.kept(conn), nil
	}
	client, err := rueidis.NewClient(o)
	n.Client = client
	if err != nil {
		n.close()
		return nil, err //nolint:wrapcheck // connect does
	}
	return n, nil
}
