package onetcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/trial"
)

func start(t *testing.T) *onetcd.Service {
	s, err := onetcd.Start(hang.Context(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// TestFullDiskEndsAMember shows what Fill does to etcd: a member that cannot write exits,
// the others continue, and Restart starts it again.
func TestFullDiskEndsAMember(t *testing.T) {
	s := start(t)
	leader, err := s.Leader(hang.Context(t))
	require.NoError(t, err)
	m := s.Members()[leader]

	began := time.Now()
	require.NoError(t, m.Fill())
	hang.Until(t, func() bool {
		_ = s.Healthy(hang.Ending(t, time.Second)) // writes, and so makes the member notice its full disk
		return !m.Running()
	}, "the member goes on with a full disk")
	t.Logf("the leader exited %s after its disk was full", time.Since(began))

	other, err := s.Leader(hang.Context(t))
	require.NoError(t, err)
	assert.NotEqual(t, leader, other)
	require.NoError(t, m.Restart(hang.Context(t)))
	require.NoError(t, s.Healthy(hang.Context(t)))
}

func TestProcessReportsWhatItsHoldAnswered(t *testing.T) {
	s := start(t)
	for _, lock := range s.Locks() {
		p, err := s.Process(hang.Context(t), lock, "held", trial.Request{Weight: 1})
		require.NoError(t, err)
		first, err := p.Report(hang.Context(t))
		require.NoError(t, err)
		require.NoError(t, p.Pause())
		require.NoError(t, p.Resume())
		next, err := p.Report(hang.Context(t))
		require.NoError(t, err)
		for next.Held == first.Held {
			next, err = p.Report(hang.Context(t))
			require.NoError(t, err)
		}
		last, err := p.Stop(hang.Context(t))
		require.NoError(t, err)

		assert.Positive(t, first.Token)
		assert.Greater(t, last.Held, first.Held)
		assert.Equal(t, history.Released, last.Outcome)
		order, err := s.Order(hang.Context(t), lock, "held")
		require.NoError(t, err)
		require.Len(t, order, 2)
		assert.Equal(t, history.Change{At: first.Token, Kind: history.Joined, Place: first.Place, Weight: 1, Seen: order[0].Seen}, order[0])
		assert.NotZero(t, order[0].Seen)
		assert.Equal(t, history.Left, order[1].Kind)
		assert.Equal(t, first.Place, order[1].Place)
		assert.Less(t, last.Back, s.Left(first.Entry))
		assert.Positive(t, trial.Now()-last.Done)
	}
}
