package onetcd

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/testnet"
)

// network is what lies between one client and the members: a proxy for each.
type network struct {
	tcpproxy.Proxies // those of the members that it may talk to

	client  *clientv3.Client
	members []int // which these are
	losses  losses

	// Where its newest streams went, as indexes into members; -1 for nowhere yet.
	watching, renewing atomic.Int64

	widen sync.Once // see start
}

// newNetwork makes a client of all members, or of those that are named.
func newNetwork(cluster *etcdtest.Cluster, only []int) (*network, error) {
	n := &network{members: only}
	n.watching.Store(-1)
	n.renewing.Store(-1)
	if len(only) == 0 {
		n.members = []int{0, 1, 2}
	}
	var endpoints []string
	for _, i := range n.members {
		p, err := testnet.New(strings.TrimPrefix(cluster.Member(i).Direct(), "http://"), nil)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.Proxies = append(n.Proxies, p)
		endpoints = append(endpoints, p.Addr())
	}
	if len(only) > 1 {
		n.start()
	}
	var err error
	n.client, err = cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.Endpoints = endpoints
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithChainUnaryInterceptor(n.unary), grpc.WithChainStreamInterceptor(n.stream))
		if len(only) > 1 {
			cfg.DialOptions = append(cfg.DialOptions, quickly())
		}
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// start has the client begin with the first of its members: etcd's takes them in
// turn, so the others refuse it until it has there what is to be aimed at.
func (n *network) start() {
	for _, p := range n.Proxies[1:] {
		p.Refuse(true)
	}
}

// started lets the client have all of its members.
func (n *network) started() {
	n.widen.Do(func() {
		for _, p := range n.Proxies { // none in a process of its own
			p.Refuse(false)
		}
	})
}

// Member implements trial.Client: it is where its watch is, or its renewals if it
// has none. Fairlock's renewals go to another member as soon as one is slow.
func (n *network) Member() int {
	for _, at := range []*atomic.Int64{&n.watching, &n.renewing} {
		if i := at.Load(); i >= 0 {
			return n.members[i]
		}
	}
	return -1
}

// opened notes where a stream has gone.
func (n *network) opened(method, addr string) {
	i := slices.IndexFunc(n.Proxies, func(p *testnet.Proxy) bool { return p.Addr() == addr })
	switch method {
	case methodWatch:
		n.watching.Store(int64(i))
	case methodRenew:
		n.renewing.Store(int64(i))
	}
}

func (n *network) close() error {
	var errs []error
	n.Heal()
	n.started()
	if n.client != nil {
		errs = append(errs, n.client.Close())
	}
	return errors.Join(append(errs, n.Proxies.Close())...)
}
