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

// network is the network between one client and the members: a proxy for each member.
type network struct {
	tcpproxy.Proxies // of the members that the client may connect to

	client  *clientv3.Client
	members []int // the indexes of these members
	losses  losses

	// The members of its newest streams, as indexes into members; -1 if there is none yet.
	watching, renewing atomic.Int64

	allow sync.Once // see onlyFirst
}

// newNetwork opens a client of all members, or of those in only.
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
		n.onlyFirst()
	}
	var err error
	n.client, err = cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.Endpoints = endpoints
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithChainUnaryInterceptor(n.unary), grpc.WithChainStreamInterceptor(n.stream))
		if len(only) > 1 {
			cfg.DialOptions = append(cfg.DialOptions, fastReconnect())
		}
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// onlyFirst makes the client connect to the first of its members. etcd's client tries its
// members in turn, so the others refuse it until allowAll, when it has a watch or a hold.
func (n *network) onlyFirst() {
	for _, p := range n.Proxies[1:] {
		p.Refuse(true)
	}
}

// allowAll lets the client connect to all of its members.
func (n *network) allowAll() {
	n.allow.Do(func() {
		for _, p := range n.Proxies { // none in a client process
			p.Refuse(false)
		}
	})
}

// Member implements trial.Client: the member of its watch, or of its renewals if it has no
// watch. Fairlock sends renewals to another member as soon as one is slow.
func (n *network) Member() int {
	for _, at := range []*atomic.Int64{&n.watching, &n.renewing} {
		i := at.Load()
		if i >= 0 {
			return n.members[i]
		}
	}
	return -1
}

// opened notes which member a stream is connected to.
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
	n.allowAll()
	if n.client != nil {
		errs = append(errs, n.client.Close())
	}
	return errors.Join(append(errs, n.Proxies.Close())...)
}
