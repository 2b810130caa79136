package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/etcdserver"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/testnet"
)

var errClosed = errors.New("the cluster is closed")

// Member is one server of a cluster.
type Member struct {
	cluster *Cluster
	spec    member.Spec
	client  *testnet.Proxy // before the client address; nil without Options.Proxied
	peer    *testnet.Proxy // before the peer address; the same

	mu     sync.Mutex
	server server // nil before it is started
	closed bool   // no server may be started any more
	id     uint64 // 0 before it is ready

	ready atomic.Bool // whether the present server has joined and answered
}

// server is a running member: embedded, or a process.
type server interface {
	serving(ctx context.Context) error // returns when it answers its peers
	ready(ctx context.Context) error   // returns when it answers linearizable reads
	status(ctx context.Context) (self, leader uint64, err error)
	moveLeader(ctx context.Context, to uint64) error
	logged() (end string, n int) // what it has logged of its start: the end, and the length of all
	halt()                       // stops the server now; may be called twice
	close()                      // after halt: releases its resources
}

// newMembers creates the members of a cluster, with their proxies.
func newMembers(ctx context.Context, c *Cluster) ([]*Member, error) {
	n := c.opts.Members
	if c.opts.Learner {
		n++
	}
	addrs, err := c.dir.Ports(ctx, 2*n)
	if err != nil {
		return nil, err
	}
	var members []*Member
	var names, peers []string
	for i := range n {
		m := &Member{cluster: c}
		members = append(members, m)
		name := fmt.Sprintf("m%d", i)
		if err := m.plan(name, addrs[2*i], addrs[2*i+1]); err != nil {
			return members, err
		}
		names = append(names, name)
		peers = append(peers, name+"="+m.spec.AdvertisePeer)
	}
	var clientTLS, peerTLS member.TLS
	if c.opts.TLS {
		ca := c.ca
		if c.opts.ServerCA != nil {
			ca = c.opts.ServerCA(ca)
		}
		clientTLS, err = issue(ca, "server")
		if err != nil {
			return members, err
		}
	}
	if c.opts.Proxied {
		peerTLS, err = issue(c.ca, "peer", names...)
		if err != nil {
			return members, err
		}
	}
	for i, m := range members {
		m.spec.Join = i >= c.opts.Members
		m.spec.Cluster = strings.Join(peers[:max(i+1, c.opts.Members)], ",")
		m.spec.Token = filepath.Base(c.dir.Path())
		m.spec.ClientTLS, m.spec.PeerTLS = clientTLS, peerTLS
	}
	return members, nil
}

// plan fills in the part of the spec that concerns only this member.
func (m *Member) plan(name, clientAddr, peerAddr string) (err error) {
	opts := m.cluster.opts
	advertiseClient, advertisePeer := clientAddr, peerAddr
	if opts.Proxied {
		m.client, err = testnet.New(clientAddr, nil)
		if err != nil {
			return err
		}
		m.peer, err = testnet.New(peerAddr, &testnet.Options{Label: serverName})
		if err != nil {
			return err
		}
		advertiseClient, advertisePeer = m.client.Addr(), m.peer.Addr()
	}
	m.spec = member.Spec{
		Name:            name,
		Dir:             filepath.Join(cmp.Or(opts.Dir, m.cluster.dir.Path()), name),
		ListenPeer:      scheme(opts.Proxied) + peerAddr,
		ListenClient:    scheme(opts.TLS) + clientAddr,
		AdvertisePeer:   scheme(opts.Proxied) + advertisePeer,
		AdvertiseClient: scheme(opts.TLS) + advertiseClient,
		Tick:            opts.Tick,
		Election:        opts.Election,
		Fsync:           opts.Fsync,
		QuotaBytes:      opts.QuotaBytes,
	}
	return nil
}

func scheme(secure bool) string {
	if secure {
		return "https://"
	}
	return "http://"
}

func issue(ca *testnet.CA, name string, hosts ...string) (member.TLS, error) {
	cert, key, err := ca.Issue(name, hosts...)
	return member.TLS{CA: ca.File(), Cert: cert, Key: key}, err
}

// Name returns the name of the member: "m0", "m1" and so on.
func (m *Member) Name() string { return m.spec.Name }

// ID returns etcd's number for the member.
func (m *Member) ID() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Endpoint returns the URL for clients, through the proxy if there is one.
func (m *Member) Endpoint() string { return m.spec.AdvertiseClient }

// Direct returns the URL for clients that bypass the proxy.
func (m *Member) Direct() string { return m.spec.ListenClient }

// Server returns the server of an embedded member; nil with Options.Processes. Do not
// stop it.
func (m *Member) Server() *etcdserver.EtcdServer {
	if e, ok := m.running().(*embedded); ok {
		return e.etcd.Server
	}
	return nil
}

func (m *Member) running() server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// start returns when the member answers its peers. If ctx ends first, the server keeps
// trying until halt.
func (m *Member) start(ctx context.Context) error {
	s, err := m.launch(ctx)
	if err != nil {
		return fmt.Errorf("etcdtest: start %q: %w", m.Name(), err)
	}
	if err := s.serving(ctx); err != nil {
		return fmt.Errorf("etcdtest: start %q: %w%s", m.Name(), err, endOfLog(ctx, s))
	}
	return nil
}

// endOfLog returns the end of a server's log for the error of a wait that ctx has ended. Other
// errors have it already.
func endOfLog(ctx context.Context, s server) string {
	if ctx.Err() == nil {
		return ""
	}
	end, _ := s.logged()
	return ": the end of its log:\n" + process.LastLines(end, 20)
}

// launch makes a server the member's own before anyone waits for it, so that halt ends
// it.
func (m *Member) launch(ctx context.Context) (s server, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, errClosed
	case m.cluster.opts.Processes:
		s, err = m.startProcess(ctx)
	default:
		s, err = startEmbedded(ctx, &m.spec)
	}
	if err != nil { // then s may hold a nil pointer
		return nil, err
	}
	m.server = s
	m.ready.Store(false)
	return s, nil
}

// waitReady returns when the member has joined and answers.
func (m *Member) waitReady(ctx context.Context) error {
	s := m.running()
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("etcdtest: wait for %q: %w%s", m.Name(), err, endOfLog(ctx, s))
	}
	m.ready.Store(true)
	id, _, err := s.status(ctx)
	if isAuthError(err) {
		return nil // known since the first start
	}
	if err != nil {
		return fmt.Errorf("etcdtest: wait for %q: %w", m.Name(), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
	return nil
}

func (m *Member) status(ctx context.Context) (self, leader uint64, err error) {
	return m.running().status(ctx)
}

func (m *Member) moveLeader(ctx context.Context, to uint64) error {
	return m.running().moveLeader(ctx, to)
}

// halt stops the server for good.
func (m *Member) halt() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	s := m.running()
	if s != nil {
		s.halt()
	}
}

func (m *Member) close() {
	s := m.running()
	if s != nil {
		s.close()
	}
}

func (m *Member) closeProxies() error {
	var errs []error
	for _, p := range []*testnet.Proxy{m.client, m.peer} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
