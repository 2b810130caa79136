//go:build unix

package demo

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/internal/owner"
)

// fixture returns a state in which ada holds with token 3, and bob waits with token 5.
func fixture() (s *state, ada, bob *process) {
	s = newState(check.Terms{Service: "etcd", Key: "key", Lease: "lease"}, &ledger.Ledger{}, func(view.Note) {})
	ada, bob = &process{name: "ada", pid: 7}, &process{name: "bob", pid: 8}
	for _, p := range []*process{ada, bob} {
		s.addWorker(p.name)
		s.handle(p, wire.Event{Kind: wire.Ready})
	}
	s.created(entry{token: 5, meta: owner.Meta{Label: "bob", PID: 8}})
	s.created(entry{token: 3, meta: owner.Meta{Label: "ada", PID: 7}})
	s.handle(ada, wire.Event{Kind: wire.Joined, At: 1, Token: 3})
	s.handle(ada, wire.Event{Kind: wire.Granted, At: 2, Token: 3})
	return s, ada, bob
}

func TestQueueIsShownInTheOrderOfTheService(t *testing.T) {
	s, _, _ := fixture()

	queue := s.model().Queue

	require.Len(t, queue, 2)
	assert.Equal(t, "ada", queue[0].Worker)
	assert.Equal(t, view.Holds, queue[0].State)
	assert.Equal(t, "bob", queue[1].Worker)
	assert.Equal(t, view.Waits, queue[1].State, "it has not reported that it holds")
}

func TestStoppedWorkerWithoutEntryIsStillShown(t *testing.T) {
	s, _, _ := fixture()
	s.change(func() {
		s.stop = check.Stop{Worker: "ada", Token: 3}
		s.workers["ada"].state = view.Stopped
	})
	require.Equal(t, view.Stopped, s.model().Queue[0].State)

	s.deleted(3, 9)

	m := s.model()
	require.Len(t, m.Queue, 1)
	require.Len(t, m.Missing, 1)
	assert.Contains(t, m.Missing[0], "ada")
}

func TestFirstEndOfAHoldCounts(t *testing.T) {
	s, ada, _ := fixture()
	s.handle(ada, wire.Event{Kind: wire.Lost, At: 10, Token: 3})
	s.handle(ada, wire.Event{Kind: wire.Released, At: 11, Token: 3})

	g := s.history().Grants[0]

	assert.Equal(t, check.Lost, g.How)
	assert.Equal(t, stamp.Stamp(10), g.End)
	assert.Equal(t, stamp.Stamp(1), g.Joined)
}

func TestHistoryHasTheEventsOfTheService(t *testing.T) {
	s, _, _ := fixture()
	s.change(func() { s.kill.Token = 3 })
	s.deleted(3, 9)

	h := s.history()

	assert.ElementsMatch(t, []check.Entry{{Token: 3, Deleted: 9}, {Token: 5}}, h.Entries)
	assert.NotZero(t, h.Kill.Deleted)
	assert.Zero(t, h.Stop.Deleted)
}

func TestWorkerThatEndsEarlyFailsTheDemonstration(t *testing.T) {
	s, ada, bob := fixture()
	s.change(func() { s.workers["ada"].state = view.Killed })
	ada.err = errors.New("signal: killed")
	s.exited(ada)
	require.Empty(t, s.failures(), "ada was killed by the demonstration")
	bob.err = errors.New("exit status 70: no etcd")

	s.exited(bob)

	err := s.until(t.Context(), "anything", func() bool { return true })
	require.EqualError(t, err, "worker bob, pid 8, ended early: exit status 70: no etcd")
}

func TestPanicFailsTheDemonstration(t *testing.T) {
	s, _, _ := fixture()

	s.guard(func() { s.handle(&process{name: "unknown"}, wire.Event{Kind: wire.Ready}) })

	err := s.until(t.Context(), "anything", func() bool { return true })
	require.ErrorContains(t, err, "panic: runtime error: invalid memory address")
}

func TestErrorOfUntilNamesTheCondition(t *testing.T) {
	s, _, _ := fixture()
	never := func() bool { return false }

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTooLong)
	err := s.until(ctx, "the queue moves on", never)
	require.ErrorIs(t, err, errTooLong)
	require.ErrorContains(t, err, "the queue moves on: ")
}

func TestUntilChecksAgainAtEveryChange(t *testing.T) {
	s, _, _ := fixture()
	met := make(chan error, 1)
	go func() { met <- s.until(t.Context(), "bob alone", func() bool { return len(s.queue) == 1 }) }()

	s.deleted(3, 9)

	require.NoError(t, <-met)
}
