package onzk

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/testnet"
)

// network is one client's way to the members. It can be harmed as a whole, by a
// proxy before each of them, and request by request.
type network struct {
	tcpproxy.Proxies // those of the members that it may talk to

	members []int // which these are; the first connection is to the first of them
	learn   func(session int64, password string)

	mu      sync.Mutex
	dials   int // until the first answer
	session int64
	conns   map[*conn]int // those there are, and to whom
	losses  []*loss       // that are to come
}

// loss is a reply that is to be lost.
type loss struct {
	kind string
	hit  bool
}

// newNetwork makes a way to the members that are named, or to all.
func newNetwork(addrs []string, only []int, learn func(int64, string)) (*network, error) {
	n := &network{members: slices.Clone(only), learn: learn, conns: map[*conn]int{}}
	if len(only) == 0 {
		for i := range addrs {
			n.members = append(n.members, i)
		}
	}
	for _, i := range n.members {
		p, err := testnet.New(addrs[i], nil)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.Proxies = append(n.Proxies, p)
	}
	return n, nil
}

// servers are the addresses to dial, that of a single member twice: zk.Conn
// sleeps for a second before it goes through its list again.
func (n *network) servers() (all []string) {
	for _, p := range n.Proxies {
		all = append(all, p.Addr())
	}
	if len(all) == 1 {
		all = append(all, all[0])
	}
	return all
}

// insistOn is how often the first member is tried before any other: it may be slow
// to answer.
const insistOn = 4

// dial makes a connection. Clients begin anywhere in their lists, so the first
// one goes where it is to go whatever address was asked for.
func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	if n.dials++; n.session == 0 && n.dials <= insistOn {
		address = n.Proxies[0].Addr()
	}
	n.mu.Unlock()
	socket, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: socket, n: n, in: bufio.NewReader(socket)}, nil
}

// greeted takes in that a member has answered a handshake.
func (n *network) greeted(c *conn, session int64, password string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if session == 0 {
		return
	}
	for i, p := range n.Proxies {
		if p.Addr() == c.RemoteAddr().String() {
			n.conns[c] = n.members[i]
		}
	}
	n.session = session
	n.learn(session, password)
}

func (n *network) closed(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// Session implements trial.Client.
func (n *network) Session() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return sessionName(n.session)
}

// sessionName is how ZooKeeper's own tools write it.
func sessionName(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// Member implements trial.Client.
func (n *network) Member() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := -1
	for _, i := range n.conns {
		if at >= 0 && i != at {
			return -1
		}
		at = i
	}
	return at
}

// Lose implements trial.Client.
func (n *network) Lose(kind string) (hit func() bool) {
	l := &loss{kind: kind}
	n.mu.Lock()
	n.losses = append(n.losses, l)
	n.mu.Unlock()
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return l.hit
	}
}

// loses returns the loss that a request of a kind is to have, if any.
func (n *network) loses(kind string) *loss {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, l := range n.losses {
		if l.kind == kind {
			n.losses = slices.Delete(n.losses, i, i+1)
			return l
		}
	}
	return nil
}

// spared gives back a loss that has met nothing: another request may have it.
func (n *network) spared(l *loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses = append(n.losses, l)
}

func (n *network) struck(l *loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.hit = true
}
