package onredis

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// The kinds of requests whose reply can be lost.
const (
	kindJoin    = "join"    // makes an entry
	kindRelease = "release" // deletes it
)

// network is the network between one client and the servers and Sentinels.
type network struct {
	tcpproxy.Proxies
	target

	near map[string]*testnet.Proxy // by the address of what is behind it

	mu    sync.Mutex
	armed map[fault.Op]*atomic.Bool // replies that are to be lost
}

// newNetwork makes the network of a client.
func (s *Service) newNetwork() (*network, error) {
	n := &network{target: s.target(), near: map[string]*testnet.Proxy{}, armed: map[fault.Op]*atomic.Bool{}}
	addrs := n.Addrs
	if s.sentinels != nil {
		for _, server := range s.servers {
			addrs = append(addrs, server.Addr())
		}
	}
	for _, addr := range addrs {
		p, err := testnet.New(addr, nil)
		if err != nil {
			return nil, errors.Join(err, n.Proxies.Close())
		}
		n.Proxies, n.near[addr] = append(n.Proxies, p), p
	}
	return n, nil
}

// dial connects to a server through its proxy.
func (n *network) dial(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	p := n.near[addr]
	if p != nil {
		addr = p.Addr()
	}
	return d.DialContext(ctx, "tcp", addr)
}

// option returns the options of a client of Fairlock.
func (n *network) option() rueidis.ClientOption {
	o := n.target.option()
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return n.dial(ctx, d, addr)
	}
	return o
}

// hide cuts the client off from a server, now and later.
func (n *network) hide(server *redistest.Server) {
	p := n.near[server.Addr()]
	p.Refuse(true)
	p.Reset()
}

// show ends hide.
func (n *network) show(server *redistest.Server) { n.near[server.Addr()].Refuse(false) }

// Member implements trial.Client.
func (n *network) Member() int { return -1 }

// Lose implements trial.Client.
func (n *network) Lose(kind string) (hit func() bool) {
	op := map[string]fault.Op{kindJoin: fault.Join, kindRelease: fault.Leave}[kind]
	lost := new(atomic.Bool)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed[op] = lost
	return lost.Load
}

// intercept loses the reply to a request of Fairlock's, with all connections of the client.
func (n *network) intercept(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error {
	n.mu.Lock()
	lost := n.armed[op]
	delete(n.armed, op)
	n.mu.Unlock()
	if lost == nil {
		return send(ctx)
	}
	if err := send(context.WithoutCancel(ctx)); err != nil {
		n.mu.Lock()
		n.armed[op] = lost
		n.mu.Unlock()
		return err
	}
	n.Reset()
	lost.Store(true)
	return errReset
}

var errReset = errors.New("the connection was reset by the trial")

// Client implements trial.Service.
func (s *Service) Client(ctx context.Context, lock string, _ ...int) (trial.Client, error) {
	n, err := s.newNetwork()
	if err != nil {
		return nil, err
	}
	var c trial.Client
	switch lock {
	case trial.Ours:
		c, err = openOurs(ctx, n, s.options())
	case Redsync, Redlock, Redislock:
		c = openPeer(n, lock, s)
	default:
		err = fmt.Errorf("onredis: there is no lock %q", lock)
	}
	if err != nil {
		return nil, errors.Join(err, n.Proxies.Close())
	}
	return c, nil
}

// childArg is the client argument of trial.Spawn.
type childArg struct {
	Lock   string
	Target target
}

// Process implements trial.Service. The client bypasses the proxies, because faults are aimed at
// the process only.
func (s *Service) Process(ctx context.Context, lock, queue string, req trial.Request) (*trial.Process, error) {
	arg := childArg{Lock: lock, Target: s.target()}
	return trial.Spawn(ctx, Name, history.Queue{Name: queue, Recipe: history.Mutex}, req, arg)
}

// OpenChild is the trial.Opener of this service.
func OpenChild(ctx context.Context, arg json.RawMessage) (trial.Client, error) {
	var a childArg
	if err := json.Unmarshal(arg, &a); err != nil {
		return nil, fmt.Errorf("onredis: client process: %w", err)
	}
	n := &network{target: a.Target, armed: map[fault.Op]*atomic.Bool{}}
	if a.Lock != trial.Ours {
		return openPeer(n, a.Lock, nil), nil
	}
	return openOurs(ctx, n, &redisbackend.Options{
		Root: root, MaxTTL: maxTTL, Nodes: a.Target.Nodes,
		Session: session.Options{TTL: trial.TTL, Logger: slog.New(slog.DiscardHandler)},
	})
}

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
	id      atomic.Value // string: the id of the newest session
}

func openOurs(ctx context.Context, n *network, o *redisbackend.Options) (*ours, error) {
	c := &ours{network: n}
	c.id.Store("")
	noted := o.Session.Hooks.SessionOpened
	o.Session.Hooks.SessionOpened = func(e session.Event) {
		c.id.Store(e.Session)
		if noted != nil {
			noted(e)
		}
	}
	b, err := redisbackend.NewBackend(n.option(), o)
	if err != nil {
		return nil, err
	}
	c.session, err = redisbackend.OpenBackend(ctx, redisbackend.Intercept(door.Key{}, b, n.intercept), o)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Kinds implements trial.Client.
func (c *ours) Kinds() []string { return []string{kindJoin, kindRelease} }

// Session implements trial.Client.
func (c *ours) Session() string { return c.id.Load().(string) } //nolint:forcetypeassert // openOurs stores one

// Acquire implements trial.Client.
func (c *ours) Acquire(ctx context.Context, queue history.Queue, req trial.Request) (trial.Hold, error) {
	return trial.AcquireOurs(ctx, c.session, queue, req)
}

// Close implements trial.Client.
func (c *ours) Close() error {
	c.Heal()
	return errors.Join(c.session.Close(), c.Proxies.Close())
}

// networkOf returns the network of a client; nil if it has none.
func networkOf(c trial.Client) *network {
	switch c := c.(type) {
	case *ours:
		return c.network
	case *peer:
		return c.network
	}
	return nil
}
