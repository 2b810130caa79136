package onzk_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

func TestOperatorEndsSessionsAndEntries(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		queue, holder, other := newQueue(history.Mutex), newClient(t, lock), newClient(t, lock)
		h := acquire(t, holder, queue, trial.Request{})
		waiting := request(t, other, queue, trial.Request{})
		awaitEntries(t, lock, queue, 2)

		began := trial.Now()
		assert.Zero(t, service.Left(h.Entry()))
		require.NoError(t, service.EndSession(within(t), holder.Session()))

		next := granted(t, waiting)
		eventually(t, "the deletion of the entry", func() bool { return service.Left(h.Entry()) > began })
		order, err := service.Order(within(t), lock, queue.Name)
		require.NoError(t, err)
		require.Len(t, order, 3)
		assert.Equal(t, history.Left, order[2].Kind)
		assert.Equal(t, h.Place(), order[2].Place)
		assert.NotZero(t, order[0].Seen)
		assert.GreaterOrEqual(t, order[1].Seen, order[0].Seen)
		assert.Greater(t, order[2].Seen, began)
		assert.Less(t, order[2].Seen, trial.Now())
		awaitDone(t, h)
		require.NoError(t, service.Delete(within(t), next.Entry()))
		awaitEntries(t, lock, queue, 0)
		if lock == trial.Ours {
			awaitDone(t, next)
		}
		outcome, err := next.Release(within(t))
		require.NoError(t, err)
		assert.Equal(t, history.Lost, outcome)
		assert.Error(t, service.Delete(within(t), next.Entry()))
		assert.Error(t, service.EndSession(within(t), "0x77"))
	})
}

func TestCarelessHolderIsNotifiedOfTheEndOfItsSessionOnly(t *testing.T) {
	queue, holder := newQueue(history.Mutex), newClient(t, onzk.StockCareless)
	h := acquire(t, holder, queue, trial.Request{})
	holder.Reset()
	eventually(t, "another connection", func() bool { return holder.Traffic().Connections > 1 && holder.Member() >= 0 })
	assert.True(t, h.Held())

	require.NoError(t, service.EndSession(within(t), holder.Session()))

	awaitDone(t, h)
}

// TestOrderMatchesTheEntries has entries join and leave, across a change of the leader. On a
// slow machine that may also end their sessions.
func TestOrderMatchesTheEntries(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		queue := newQueue(history.Mutex)
		holder, waiter, third := newClient(t, lock), newClient(t, lock), newClient(t, lock)
		h := acquire(t, holder, queue, trial.Request{})
		waiting := request(t, waiter, queue, trial.Request{})
		awaitEntries(t, lock, queue, 2)
		_ = request(t, third, queue, trial.Request{})
		awaitEntries(t, lock, queue, 3)
		require.NoError(t, service.EndSession(within(t), holder.Session()))
		next := granted(t, waiting)
		before := living(t, lock, queue)
		assert.NotContains(t, before, h.Place())
		assert.Contains(t, before, next.Place())
		assert.Len(t, before, 2)

		leader, err := service.Leader(within(t))
		require.NoError(t, err)
		require.NoError(t, service.Members()[leader].Kill())
		require.NoError(t, service.Members()[leader].Restart(within(t)))
		require.NoError(t, service.Healthy(within(t)))

		eventually(t, "the order has as many entries as the queue", func() bool { return len(living(t, lock, queue)) == len(entries(t, lock, queue)) })
	})
}

// living returns the places of the entries that exist according to the order.
func living(t *testing.T, lock string, queue history.Queue) map[int64]bool {
	t.Helper()
	order, err := service.Order(within(t), lock, queue.Name)
	require.NoError(t, err)
	all := map[int64]bool{}
	for i, c := range order {
		require.NotZero(t, c.Seen)
		require.True(t, i == 0 || c.At >= order[i-1].At && c.Seen >= order[i-1].Seen)
		require.Equal(t, c.Kind != history.Joined, all[c.Place])
		if all[c.Place] = true; c.Kind == history.Left {
			delete(all, c.Place)
		}
	}
	return all
}

func TestProcessLosesItsHoldWhileItIsStopped(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		queue, other := newQueue(history.Mutex), newClient(t, lock)
		p, err := service.Process(within(t), lock, queue.Name, trial.Request{Weight: 1})
		require.NoError(t, err)
		var a history.Attempt
		eventually(t, "the process has polled its hold", func() bool {
			a, err = p.Report(within(t))
			require.NoError(t, err)
			return a.Held != 0
		})
		assert.Zero(t, a.Over)
		waiting := request(t, other, queue, trial.Request{})
		awaitEntries(t, lock, queue, 2)

		require.NoError(t, p.Pause())
		stopped := trial.Now()
		next := granted(t, waiting)
		assert.Greater(t, next.Place(), a.Place)
		require.NoError(t, p.Resume())

		eventually(t, "the process notices", func() bool {
			a, err := p.Report(within(t))
			require.NoError(t, err)
			return a.Over > stopped
		})
		a, err = p.Stop(within(t))
		require.NoError(t, err)
		assert.NotEqual(t, history.Released, a.Outcome)
		if lock == trial.Ours {
			assert.Less(t, a.Held, stopped+history.Instant(trial.Poll), "its hold compares the clock with its deadline")
		}
		release(t, next)

		p, err = service.Process(within(t), lock, queue.Name, trial.Request{Weight: 1})
		require.NoError(t, err)
		a, err = p.Stop(within(t))
		require.NoError(t, err)
		assert.Equal(t, history.Released, a.Outcome)
		p, err = service.Process(within(t), lock, queue.Name, trial.Request{Weight: 1})
		require.NoError(t, err)
		p.Halt()
		release(t, acquire(t, other, queue, trial.Request{}))
	})
}

func TestFaultsOfMembersTakeEffectAndHeal(t *testing.T) {
	for name, harm := range map[string]func(trial.Member) (heal func() error, err error){
		"cut": func(m trial.Member) (func() error, error) {
			m.CutPeers()
			return func() error { m.HealPeers(); return nil }, nil
		},
		"paused": func(m trial.Member) (func() error, error) { return m.Resume, m.Pause() },
		"killed": func(m trial.Member) (func() error, error) {
			return func() error { return m.Restart(within(t)) }, m.Kill()
		},
		"full": func(m trial.Member) (func() error, error) {
			return func() error { return m.Restart(within(t)) }, m.Fill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, service.Healthy(within(t)))
			leader, err := service.Leader(within(t))
			require.NoError(t, err)
			c, queue := newClient(t, trial.Ours), newQueue(history.Mutex)
			m := service.Members()[leader]
			assert.True(t, m.Running())

			heal, err := harm(m)
			require.NoError(t, err)
			eventually(t, "another leads", func() bool {
				// Unlock waits for at most a second, and electing a leader can take longer. Then
				// it returns ErrReleasePending, and the session finishes the release when another
				// member leads: the next acquire, and the one below, are granted behind it.
				outcome, err := acquire(t, c, queue, trial.Request{}).Release(within(t))
				if assert.NoError(t, err) {
					assert.Contains(t, []history.Outcome{history.Released, history.Pending}, outcome)
				}
				now, err := service.Leader(within(t))
				return assert.NoError(t, err) && now != leader
			})

			assert.Equal(t, name == "cut" || name == "paused", m.Running())
			if name == "cut" {
				assert.Positive(t, m.Traffic().Waiting)
			}
			require.NoError(t, heal())
			require.NoError(t, service.Healthy(within(t)))
			assert.True(t, m.Running())
			outcome, err := acquire(t, c, queue, trial.Request{}).Release(within(t))
			require.NoError(t, err)
			assert.Equal(t, history.Released, outcome, "a healthy service acknowledges the release")
			order, err := service.Order(within(t), trial.Ours, queue.Name)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(order), 2)
		})
	}
}

func TestUnsupportedFaultsAreReported(t *testing.T) {
	_, err := service.Quota(within(t))
	for _, err := range []error{err, service.Compact(within(t)), service.MoveLeader(within(t), 0)} {
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
}
