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

func TestSessionsAndEntriesEndByAnOperatorsHand(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		line, holder, other := newLine(history.Mutex), newClient(t, lock), newClient(t, lock)
		h := acquire(t, holder, line, trial.Request{})
		waiting := request(t, other, line, trial.Request{})
		lined(t, lock, line, 2)

		began := trial.Now()
		assert.Zero(t, service.Left(h.Entry()))
		require.NoError(t, service.EndSession(within(t), holder.Session()))

		next := granted(t, waiting)
		eventually(t, "its end", func() bool { return service.Left(h.Entry()) > began })
		order, err := service.Order(within(t), lock, line.Name)
		require.NoError(t, err)
		require.Len(t, order, 3)
		assert.Equal(t, history.Left, order[2].Kind)
		assert.Equal(t, h.Place(), order[2].Place)
		assert.NotZero(t, order[0].Seen)
		assert.GreaterOrEqual(t, order[1].Seen, order[0].Seen)
		assert.Greater(t, order[2].Seen, began)
		assert.Less(t, order[2].Seen, trial.Now())
		told(t, h)
		require.NoError(t, service.Delete(within(t), next.Entry()))
		lined(t, lock, line, 0)
		if lock == trial.Ours {
			told(t, next)
		}
		outcome, err := next.Release(within(t))
		require.NoError(t, err)
		assert.Equal(t, history.Lost, outcome)
		assert.Error(t, service.Delete(within(t), next.Entry()))
		assert.Error(t, service.EndSession(within(t), "0x77"))
	})
}

func TestTheCarelessHearOfTheirSessionOnly(t *testing.T) {
	line, holder := newLine(history.Mutex), newClient(t, onzk.StockCareless)
	h := acquire(t, holder, line, trial.Request{})
	holder.Reset()
	eventually(t, "another connection", func() bool { return holder.Traffic().Connections > 1 && holder.Member() >= 0 })
	assert.True(t, h.Held())

	require.NoError(t, service.EndSession(within(t), holder.Session()))

	told(t, h)
}

// TestTheOrderIsThatOfTheEntries has entries come and go, over a change of the
// leader. On a slow machine that may end their sessions, too.
func TestTheOrderIsThatOfTheEntries(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		line := newLine(history.Mutex)
		holder, waiter, third := newClient(t, lock), newClient(t, lock), newClient(t, lock)
		h := acquire(t, holder, line, trial.Request{})
		waiting := request(t, waiter, line, trial.Request{})
		lined(t, lock, line, 2)
		_ = request(t, third, line, trial.Request{})
		lined(t, lock, line, 3)
		require.NoError(t, service.EndSession(within(t), holder.Session()))
		next := granted(t, waiting)
		before := living(t, lock, line)
		assert.NotContains(t, before, h.Place())
		assert.Contains(t, before, next.Place())
		assert.Len(t, before, 2)

		lead, err := service.Leader(within(t))
		require.NoError(t, err)
		require.NoError(t, service.Members()[lead].Kill())
		require.NoError(t, service.Members()[lead].Restart(within(t)))
		require.NoError(t, service.Healthy(within(t)))

		eventually(t, "the same", func() bool { return len(living(t, lock, line)) == len(entries(t, lock, line)) })
	})
}

// living are the places of the entries that there are by the order.
func living(t *testing.T, lock string, line history.Line) map[int64]bool {
	t.Helper()
	order, err := service.Order(within(t), lock, line.Name)
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

func TestProcessesHoldAndStopAndGoOn(t *testing.T) {
	each(t, func(t *testing.T, lock string) {
		line, other := newLine(history.Mutex), newClient(t, lock)
		p, err := service.Process(within(t), lock, line.Name)
		require.NoError(t, err)
		var a history.Attempt
		eventually(t, "it has asked its hold", func() bool {
			a, err = p.Report(within(t))
			require.NoError(t, err)
			return a.Held != 0
		})
		assert.Zero(t, a.Over)
		waiting := request(t, other, line, trial.Request{})
		lined(t, lock, line, 2)

		require.NoError(t, p.Pause())
		stopped := trial.Now()
		next := granted(t, waiting)
		assert.Greater(t, next.Place(), a.Place)
		require.NoError(t, p.Resume())

		eventually(t, "it knows", func() bool {
			a, err := p.Report(within(t))
			require.NoError(t, err)
			return a.Over > stopped
		})
		a, err = p.Stop(within(t))
		require.NoError(t, err)
		assert.NotEqual(t, history.Given, a.Outcome)
		if lock == trial.Ours {
			assert.Less(t, a.Held, stopped+history.Instant(trial.Poll), "it asks for the time")
		}
		release(t, next)

		p, err = service.Process(within(t), lock, line.Name)
		require.NoError(t, err)
		a, err = p.Stop(within(t))
		require.NoError(t, err)
		assert.Equal(t, history.Given, a.Outcome)
		p, err = service.Process(within(t), lock, line.Name)
		require.NoError(t, err)
		p.Halt()
		release(t, acquire(t, other, line, trial.Request{}))
	})
}

func TestMembersCanBeHarmed(t *testing.T) {
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
			lead, err := service.Leader(within(t))
			require.NoError(t, err)
			c, line := newClient(t, trial.Ours), newLine(history.Mutex)
			m := service.Members()[lead]
			assert.True(t, m.Running())

			heal, err := harm(m)
			require.NoError(t, err)
			eventually(t, "another leads", func() bool {
				// Unlock waits for at most a second, and electing a leader can take longer. Then
				// it returns ErrReleasePending, and the session finishes the release when another
				// member leads: the next acquire, and the one below, are granted behind it.
				outcome, err := acquire(t, c, line, trial.Request{}).Release(within(t))
				if assert.NoError(t, err) {
					assert.Contains(t, []history.Outcome{history.Given, history.Pending}, outcome)
				}
				now, err := service.Leader(within(t))
				return assert.NoError(t, err) && now != lead
			})

			assert.Equal(t, name == "cut" || name == "paused", m.Running())
			if name == "cut" {
				assert.Positive(t, m.Traffic().Waiting)
			}
			require.NoError(t, heal())
			require.NoError(t, service.Healthy(within(t)))
			assert.True(t, m.Running())
			outcome, err := acquire(t, c, line, trial.Request{}).Release(within(t))
			require.NoError(t, err)
			assert.Equal(t, history.Given, outcome, "a healthy service acknowledges the release")
			order, err := service.Order(within(t), trial.Ours, line.Name)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(order), 2)
		})
	}
}

func TestWhatZooKeeperHasNot(t *testing.T) {
	_, err := service.Quota(within(t))
	for _, err := range []error{err, service.Compact(within(t)), service.MoveLeader(within(t), 0)} {
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
}
