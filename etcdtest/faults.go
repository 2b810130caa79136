package etcdtest

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// ClientProxy returns the proxy of the address for clients; nil without
// Options.Proxied.
func (m *Member) ClientProxy() *testnet.Proxy { return m.client }

// PeerProxy returns the proxy of the address for the other members; nil without
// Options.Proxied. Connections that this member makes to others go through their
// proxies, with its Name as the label.
func (m *Member) PeerProxy() *testnet.Proxy { return m.peer }

// CutPeers cuts the member off from all others, in both directions; clients still reach
// it. No message is lost: what is sent meanwhile arrives after HealPeers. Cuts of
// several members add up. It panics without Options.Proxied.
func (m *Member) CutPeers() {
	m.mustBeProxied("CutPeers")
	for _, other := range m.cluster.members {
		if other != m {
			other.peer.HoldFrom(m.Name(), fault.Both)
		}
	}
	m.peer.Hold(fault.Both)
}

// HealPeers ends CutPeers.
func (m *Member) HealPeers() {
	m.mustBeProxied("HealPeers")
	for _, other := range m.cluster.members {
		if other != m {
			other.peer.HealFrom(m.Name(), fault.Both)
		}
	}
	m.peer.Heal(fault.Both)
}

func (m *Member) mustBeProxied(op string) {
	if m.peer == nil {
		panic("etcdtest: " + op + " needs Options.Proxied")
	}
}

// Pid returns the process id of the member; 0 without Options.Processes.
func (m *Member) Pid() int {
	if p, ok := m.running().(*separate); ok {
		return p.Pid()
	}
	return 0
}

// Kill ends the process at once (SIGKILL) and returns when it is gone. Further
// calls do nothing. It panics without Options.Processes.
func (m *Member) Kill() {
	p, ok := m.running().(*separate)
	if !ok {
		panic("etcdtest: Kill needs Options.Processes")
	}
	p.halt()
}

// Pause stops the process (SIGSTOP): its connections stay open and it does not answer.
// It fails without Options.Processes, when the process is gone, and on systems without
// that signal.
func (m *Member) Pause() error {
	p, err := m.process("pause")
	if err != nil {
		return err
	}
	if err := p.Pause(); err != nil {
		return fmt.Errorf("etcdtest: pause %q: %w", m.Name(), err)
	}
	return nil
}

// Resume resumes a paused process (SIGCONT). It fails like Pause.
func (m *Member) Resume() error {
	p, err := m.process("resume")
	if err != nil {
		return err
	}
	if err := p.Resume(); err != nil {
		return fmt.Errorf("etcdtest: resume %q: %w", m.Name(), err)
	}
	return nil
}

// Restart kills the process if it still runs and starts another with the same data and
// the same addresses. It returns when that one has joined the cluster and answers,
// which takes a majority of live members. If ctx ends first, Restart returns an error
// and the process keeps trying. It fails without Options.Processes and after Close,
// which also ends a Restart. Do not restart one member twice at the same time.
func (m *Member) Restart(ctx context.Context) error {
	p, err := m.process("restart")
	if err != nil {
		return err
	}
	p.halt()
	p.close()
	if err := m.start(ctx); err != nil {
		return err
	}
	return m.waitReady(ctx)
}

func (m *Member) process(op string) (*separate, error) {
	if p, ok := m.running().(*separate); ok {
		return p, nil
	}
	return nil, fmt.Errorf("etcdtest: %s %q: only members with Options.Processes can be", op, m.Name())
}
