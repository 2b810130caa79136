package zktest

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// link is the path from one member to another. It carries only the connections that the
// first member makes.
type link struct {
	quorum   *testnet.Proxy // from a follower to its leader
	election *testnet.Proxy // votes
}

func (l *link) each(f func(*testnet.Proxy)) {
	f(l.quorum)
	f(l.election)
}

func (l *link) close() error {
	var errs []error
	l.each(func(p *testnet.Proxy) {
		if p != nil {
			errs = append(errs, p.Close())
		}
	})
	return errors.Join(errs...)
}

// addProxies adds a proxy before every member's client address, and the proxies of its
// links to the other members.
func (e *Ensemble) addProxies() (err error) {
	for _, m := range e.members {
		m.client, err = testnet.New(m.addrs.client, nil)
		if err != nil {
			return err
		}
		m.links = make([]*link, len(e.members))
		for i, other := range e.members {
			if other == m {
				continue
			}
			l := new(link)
			m.links[i] = l
			// A member whose connection is accepted and then reset waits for seconds
			// before it tries again. DialRetry holds the connection until the other
			// member listens.
			l.quorum, err = testnet.New(other.addrs.quorum, &testnet.Options{DialRetry: true})
			if err != nil {
				return err
			}
			back := func() string { return other.links[m.index].election.Addr() }
			l.election, err = testnet.New(other.addrs.election, &testnet.Options{DialRetry: true, Rewrite: callBack(back)})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// way returns the addresses at which the member reaches another member, or itself.
func (m *Member) way(other *Member) addrs {
	at := other.addrs
	if m.links != nil && m != other {
		l := m.links[other.index]
		at.quorum, at.election = l.quorum.Addr(), l.election.Addr()
	}
	return at
}

// callBack rewrites the first message of an election connection. The message contains
// the address of the member that sends it. A receiver with a higher number closes the
// connection and connects to that address. Without the rewrite, that would bypass all
// proxies.
//
// The message is a version (negative; older members send only their number), the
// member's number, and the length of the address with the address.
func callBack(addr func() string) func(head []byte) ([]byte, bool) {
	const fixed = 8 + 8 + 4
	return func(head []byte) ([]byte, bool) {
		if len(head) < 8 {
			return nil, false
		}
		if int64(binary.BigEndian.Uint64(head)) >= 0 {
			return head, true
		}
		if len(head) < fixed {
			return nil, false
		}
		length := binary.BigEndian.Uint32(head[fixed-4:])
		if uint64(len(head)) < fixed+uint64(length) {
			return nil, false
		}
		rest := head[fixed+int(length):]
		instead := append([]byte(nil), head[:fixed-4]...)
		instead = binary.BigEndian.AppendUint32(instead, uint32(len(addr())))
		instead = append(instead, addr()...)
		return append(instead, rest...), true
	}
}

// ClientProxy returns the proxy of the address for clients; nil without
// Options.Proxied.
func (m *Member) ClientProxy() *testnet.Proxy { return m.client }

// PeerProxy returns the proxy between this member and another, which is in use while
// this one follows that one: requests are what the follower sends. Cuts and their ends
// call its Hold and Heal, and DelayTo its Delay. It is nil without Options.Proxied and
// for the member itself.
func (m *Member) PeerProxy(to int) *testnet.Proxy {
	if m.links == nil || m.links[to] == nil {
		return nil
	}
	return m.links[to].quorum
}

// cut is between two members, or between one and all others.
type cut struct{ one, other int }

const allOthers = -1

// CutPeers cuts the member off from all others, in both directions; clients still reach
// it. No message is lost: what is sent meanwhile arrives after HealPeers. A follower
// serves its clients' reads until it has received nothing for syncLimit (20) ticks.
// Cuts add up. It panics without Options.Proxied.
func (m *Member) CutPeers() { m.cut("CutPeers", allOthers, true) }

// HealPeers ends CutPeers.
func (m *Member) HealPeers() { m.cut("HealPeers", allOthers, false) }

// CutFrom is CutPeers for the two members alone: both still reach all others.
func (m *Member) CutFrom(other int) { m.cut("CutFrom", other, true) }

// HealFrom ends CutFrom, of either of the two.
func (m *Member) HealFrom(other int) { m.cut("HealFrom", other, false) }

func (m *Member) cut(op string, other int, on bool) {
	m.mustHaveLinks(op, other)
	c := cut{m.index, other}
	if other != allOthers {
		c = cut{min(m.index, other), max(m.index, other)}
	}
	e := m.ensemble
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cuts[c] = on
	for _, from := range e.members {
		for to, l := range from.links {
			switch {
			case l == nil:
			case e.severed(from.index, to):
				l.each(func(p *testnet.Proxy) { p.Hold(fault.Both) })
			default:
				l.each(func(p *testnet.Proxy) { p.Heal(fault.Both) })
			}
		}
	}
}

// severed reports whether any cut is between two members.
func (e *Ensemble) severed(a, b int) bool {
	return e.cuts[cut{a, allOthers}] || e.cuts[cut{b, allOthers}] || e.cuts[cut{min(a, b), max(a, b)}]
}

// DelayTo delays what the member sends to another by d, whichever of the two has made
// the connection. 0 ends the delay; messages that are under way are not overtaken. With
// a delay to its leader a follower takes longer to write; with a delay from its leader
// it lags behind. It panics without Options.Proxied.
func (m *Member) DelayTo(other int, d time.Duration) {
	m.mustHaveLinks("DelayTo", other)
	m.links[other].each(func(p *testnet.Proxy) { p.Delay(fault.Requests, d) })
	m.ensemble.members[other].links[m.index].each(func(p *testnet.Proxy) { p.Delay(fault.Replies, d) })
}

func (m *Member) mustHaveLinks(op string, other int) {
	switch {
	case m.links == nil:
		panic("zktest: " + op + " needs Options.Proxied")
	case other == m.index:
		panic("zktest: " + op + " needs another member")
	}
}
