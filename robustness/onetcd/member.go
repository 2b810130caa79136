package onetcd

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/tcpproxy"
)

// member adds the methods that show whether a fault is in effect. Pause and Resume are
// those of etcdtest.Member.
type member struct{ *etcdtest.Member }

// Traffic implements trial.Member: the traffic through the proxy of this member's peer
// address, in both directions.
func (m *member) Traffic() tcpproxy.Traffic { return tcpproxy.Proxies{m.PeerProxy()}.Traffic() }

// Kill implements trial.Member.
func (m *member) Kill() error {
	pid := m.Pid()
	m.Member.Kill()
	if running(pid) {
		return fmt.Errorf("onetcd: %s still runs, pid %d", m.Name(), pid)
	}
	return nil
}

// Running implements trial.Member.
func (m *member) Running() bool { return running(m.Pid()) }

// Restart implements trial.Member.
func (m *member) Restart(ctx context.Context) error { return m.Member.Restart(ctx) }

// Fill implements trial.Member.
func (m *member) Fill() error {
	if err := fill(m.Pid()); err != nil {
		return fmt.Errorf("onetcd: fill the disk of %s: %w", m.Name(), err)
	}
	return nil
}
