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

// network is the network between one client and the members. Faults are injected into all of
// it, by a proxy before each member, or into single requests.
type network struct {
	tcpproxy.Proxies // of the members that the client may connect to

	endpoints   *endpoints
	terminators []*terminator // between the proxies and these members, if they require TLS
	members     []int         // the indexes of these members; the first connection is to the first
	learn       func(session int64, password string)

	mu      sync.Mutex
	dials   int
	session int64
	conns   map[*conn]int // the open connections, with their members
	losses  []*loss       // replies that are to be lost
}

// loss is a reply that is to be lost.
type loss struct {
	kind string
	hit  bool
}

// newNetwork starts the proxies to the members in only, or to all. learn is called with the
// id and the password of the session at each handshake.
func newNetwork(e *endpoints, only []int, learn func(int64, string)) (*network, error) {
	n := &network{endpoints: e, members: slices.Clone(only), learn: learn, conns: map[*conn]int{}}
	if len(only) == 0 {
		for i := range e.Addrs {
			n.members = append(n.members, i)
		}
	}
	for _, i := range n.members {
		if err := n.addProxy(i); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// addProxy adds the proxy to a member.
func (n *network) addProxy(member int) error {
	target := n.endpoints.Addrs[member]
	if n.endpoints.tls != nil {
		t, err := n.terminate(member)
		if err != nil {
			return err
		}
		n.terminators = append(n.terminators, t)
		target = t.Addr().String()
	}
	p, err := testnet.New(target, nil)
	if err != nil {
		return err
	}
	n.Proxies = append(n.Proxies, p)
	return nil
}

// Close ends the proxies and the terminators, and all connections through them.
func (n *network) Close() error {
	errs := []error{n.Proxies.Close()}
	for _, t := range n.terminators {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// servers returns the addresses to dial.
func (n *network) servers() (all []string) {
	for _, p := range n.Proxies {
		all = append(all, p.Addr())
	}
	return all
}

// firstMemberDials is how often the first member is dialled before any other, because it may
// be slow to answer.
const firstMemberDials = 4

// dial makes a connection. Clients begin at a random place in their lists, so the first
// connections go to the first member, whatever address the client asks for.
func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	if n.session == 0 && n.dials <= firstMemberDials {
		address = n.Proxies[0].Addr()
	}
	n.mu.Unlock()
	socket, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || n.endpoints.tls != nil { // a terminator inspects what is below TLS
		return socket, err
	}
	i := slices.IndexFunc(n.Proxies, func(p *testnet.Proxy) bool { return p.Addr() == address })
	return n.inspect(socket, n.members[i]), nil
}

// inspect returns a connection to a member, whose packets are inspected.
func (n *network) inspect(socket net.Conn, member int) *conn {
	return &conn{Conn: socket, n: n, member: member, in: bufio.NewReader(socket)}
}

// connected notes that a member has answered a handshake.
func (n *network) connected(c *conn, session int64, password string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if session == 0 {
		return
	}
	n.conns[c] = c.member
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

// sessionName formats the id of a session as ZooKeeper's own tools do.
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

// take returns the loss for a request of a kind, if any.
func (n *network) take(kind string) *loss {
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

// restore undoes take for a loss that has not happened.
func (n *network) restore(l *loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses = append(n.losses, l)
}

func (n *network) lost(l *loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.hit = true
}
