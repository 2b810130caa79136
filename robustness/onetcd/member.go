package onetcd

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/tcpproxy"
)

// member adds to a member what tells whether a fault has met it. Pause and Resume
// are its own.
type member struct{ *etcdtest.Member }

// Traffic implements trial.Member: what this member is to be told by others, and
// what it is to tell them through its own proxy.
func (m *member) Traffic() tcpproxy.Traffic { return tcpproxy.Proxies{m.PeerProxy()}.Traffic() }

// Kill implements trial.Member.
func (m *member) Kill() error {
	pid := m.Pid()
	m.Member.Kill()
	if running(pid) {
		return fmt.Errorf("onetcd: %s is still there, pid %d", m.Name(), pid)
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
