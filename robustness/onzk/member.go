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

// member adds the methods that show whether a fault is in effect. Pause, Resume, CutPeers and
// HealPeers are those of zktest.Member.
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

// Running implements trial.Member. When ZooKeeper cannot write any more, its process stays for
// a while and answers every command that it does not serve.
func (m *member) Running() bool {
	if errors.Is(syscall.Kill(m.Pid(), 0), syscall.ESRCH) {
		return false
	}
	return !m.full.Load() || m.serves()
}

func (m *member) serves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), trial.TTL/2)
	defer cancel()
	reply, err := m.Command(ctx, "srvr")
	return err == nil && modeLine.MatchString(reply)
}
