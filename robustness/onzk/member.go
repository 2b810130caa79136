package onzk

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/zktest"
)

// member adds to a member what tells whether a fault has met it. Pause, Resume,
// CutPeers and HealPeers are its own.
type member struct {
	*zktest.Member
	ensemble *zktest.Ensemble
	index    int
	full     atomic.Bool // its disk
}

// Kill implements trial.Member.
func (m *member) Kill() error {
	m.Member.Kill()
	return nil
}

// Fill implements trial.Member.
func (m *member) Fill() error {
	m.full.Store(true)
	return m.Member.Fill()
}

// Restart implements trial.Member.
func (m *member) Restart(ctx context.Context) error {
	m.full.Store(false)
	return m.Member.Restart(ctx)
}

// Traffic implements trial.Member.
func (m *member) Traffic() tcpproxy.Traffic {
	var ways tcpproxy.Proxies
	for i := range m.ensemble.Len() {
		if i != m.index {
			ways = append(ways, m.PeerProxy(i), m.ensemble.Member(i).PeerProxy(m.index))
		}
	}
	return ways.Traffic()
}

// Running implements trial.Member. ZooKeeper's process is there for a while when it
// cannot write any more, and tells everybody that it serves nobody.
func (m *member) Running() bool {
	if errors.Is(syscall.Kill(m.Pid(), 0), syscall.ESRCH) {
		return false
	}
	return !m.full.Load() || m.serves()
}

func (m *member) serves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), trial.TTL/2)
	defer cancel()
	says, err := m.Command(ctx, "srvr")
	return err == nil && saysMode.MatchString(says)
}
