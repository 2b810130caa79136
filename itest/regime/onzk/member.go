package onzk

import (
	"errors"
	"syscall"

	"github.com/fairlock/fairlock/itest/regime/trial"
	"github.com/fairlock/fairlock/zktest"
)

// member adds to a member what tells whether a fault has met it. Pause, Resume,
// Restart, CutPeers, HealPeers and Fill are its own.
type member struct {
	*zktest.Member
	ensemble *zktest.Ensemble
	index    int
}

// Kill implements trial.Member.
func (m *member) Kill() error {
	m.Member.Kill()
	return nil
}

// Traffic implements trial.Member.
func (m *member) Traffic() (t trial.Traffic) {
	for i := range m.ensemble.Len() {
		if i != m.index {
			add(&t, m.PeerProxy(i))
			add(&t, m.ensemble.Member(i).PeerProxy(m.index))
		}
	}
	return t
}

// Running implements trial.Member.
func (m *member) Running() bool { return !errors.Is(syscall.Kill(m.Pid(), 0), syscall.ESRCH) }
