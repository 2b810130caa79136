package onpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// The kinds of requests whose reply can be lost.
const (
	kindOpen    = "open"    // makes a session
	kindJoin    = "join"    // makes an entry
	kindRelease = "release" // deletes it
)

// network is the network between one client and the servers, or the pooler.
type network struct {
	tcpproxy.Proxies

	name   string // by which the servers know its connections
	url    string
	listen string

	mu    sync.Mutex
	armed map[fault.Op]*atomic.Bool // replies that are to be lost
}

// newNetwork makes the network of a client.
func (s *Service) newNetwork() (*network, error) {
	s.mu.Lock()
	s.clients++
	n := &network{name: fmt.Sprint("client", s.clients), armed: map[fault.Op]*atomic.Bool{}}
	s.mu.Unlock()
	addrs := s.addrs()
	if s.pooler != nil {
		addrs = []string{s.pooler.Addr()}
	}
	url, err := n.through(addrs...)
	if err == nil && s.setup == PoolerListen {
		n.listen, err = n.through(s.primary.Addr())
	}
	if s.setup == Pooler {
		n.listen = pgbackend.ListenOff
	}
	n.url = url
	if err != nil {
		return nil, errors.Join(err, n.Proxies.Close())
	}
	return n, nil
}

// through returns a URL of servers behind new proxies.
func (n *network) through(addrs ...string) (string, error) {
	var near []string
	for _, addr := range addrs {
		p, err := testnet.New(addr, nil)
		if err != nil {
			return "", err
		}
		n.Proxies = append(n.Proxies, p)
		near = append(near, p.Addr())
	}
	return urlOf(near...) + "&application_name=" + n.name, nil
}

// Member implements trial.Client.
func (n *network) Member() int { return -1 }

// Lose implements trial.Client.
func (n *network) Lose(kind string) (hit func() bool) {
	op := map[string]fault.Op{kindOpen: fault.Open, kindJoin: fault.Join, kindRelease: fault.Leave}[kind]
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
	case Advisory:
		c, err = openAdvisory(ctx, n)
	case Lease:
		c, err = openLease(ctx, n, s)
	default:
		err = fmt.Errorf("onpg: there is no lock %q", lock)
	}
	if err != nil {
		return nil, errors.Join(err, n.Proxies.Close())
	}
	return c, nil
}

// childArg is the client argument of trial.Spawn.
type childArg struct{ Lock, URL, Listen string }

// Process implements trial.Service. The client bypasses the proxies, because faults are aimed at
// the process only.
func (s *Service) Process(ctx context.Context, lock, queue string, req trial.Request) (*trial.Process, error) {
	arg := childArg{Lock: lock, URL: s.direct()}
	if s.pooler != nil {
		arg.URL, arg.Listen = urlOf(s.pooler.Addr()), pgbackend.ListenOff
	}
	if s.setup == PoolerListen {
		arg.Listen = s.direct()
	}
	return trial.Spawn(ctx, Name, history.Queue{Name: queue, Recipe: history.Mutex}, req, arg)
}

// OpenChild is the trial.Opener of this service.
func OpenChild(ctx context.Context, arg json.RawMessage) (trial.Client, error) {
	var a childArg
	if err := json.Unmarshal(arg, &a); err != nil {
		return nil, fmt.Errorf("onpg: client process: %w", err)
	}
	n := &network{name: "process", url: a.URL, listen: a.Listen, armed: map[fault.Op]*atomic.Bool{}}
	switch a.Lock {
	case Advisory:
		return openAdvisory(ctx, n)
	case Lease:
		return openLease(ctx, n, nil)
	}
	return openOurs(ctx, n, session.Options{TTL: trial.TTL, Logger: slog.New(slog.DiscardHandler)})
}

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
	id      atomic.Value // string: the id of the newest session
}

func openOurs(ctx context.Context, n *network, opts session.Options) (*ours, error) {
	c := &ours{network: n}
	c.id.Store("")
	noted := opts.Hooks.SessionOpened
	opts.Hooks.SessionOpened = func(e session.Event) {
		c.id.Store(e.Session)
		if noted != nil {
			noted(e)
		}
	}
	o := &pgbackend.Options{Root: root, Listen: n.listen, Session: opts}
	config, err := pgx.ParseConfig(n.url)
	if err != nil {
		return nil, err
	}
	b, err := pgbackend.ConfigBackend(config, o)
	if err != nil {
		return nil, err
	}
	c.session, err = pgbackend.OpenBackend(ctx, pgbackend.Intercept(door.Key{}, b, n.intercept), o)
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

// clientsOf returns the networks of clients.
func clientsOf(at []trial.Target) (all []*network) {
	for _, t := range at {
		for _, c := range t.Clients {
			all = append(all, networkOf(c))
		}
	}
	return slices.DeleteFunc(all, func(n *network) bool { return n == nil })
}

// networkOf returns the network of a client; nil if it has none.
func networkOf(c trial.Client) *network {
	switch c := c.(type) {
	case *ours:
		return c.network
	case *advisory:
		return c.network
	case *lease:
		return c.network
	}
	return nil
}
