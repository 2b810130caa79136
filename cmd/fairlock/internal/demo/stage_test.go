//go:build unix

package demo

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	"github.com/fairlock/fairlock/internal/door"
)

// scene is a stage on which ada holds with token 3, and bob waits with 5.
func scene() (s *stage, ada, bob *process) {
	s = newStage(check.Terms{Service: "etcd", Key: "key", Lease: "lease"}, &ledger.Ledger{}, func(view.Note) {})
	ada, bob = &process{name: "ada", pid: 7}, &process{name: "bob", pid: 8}
	for _, p := range []*process{ada, bob} {
		s.enter(p.name)
		s.hear(p, wire.Event{Kind: wire.Ready})
	}
	s.put(place{token: 5, meta: door.Meta{Label: "bob", PID: 8}})
	s.put(place{token: 3, meta: door.Meta{Label: "ada", PID: 7}})
	s.hear(ada, wire.Event{Kind: wire.Joined, At: 1, Token: 3})
	s.hear(ada, wire.Event{Kind: wire.Granted, At: 2, Token: 3})
	return s, ada, bob
}

func TestTheLineIsShownInTheOrderOfTheStore(t *testing.T) {
	s, _, _ := scene()

	line := s.model().Queue

	require.Len(t, line, 2)
	assert.Equal(t, "ada", line[0].Worker)
	assert.Equal(t, view.Holds, line[0].State)
	assert.Equal(t, "bob", line[1].Worker)
	assert.Equal(t, view.Waits, line[1].State, "first or not: it has not said that it holds")
}

func TestOneThatIsStoppedAndOutOfTheLineIsStillShown(t *testing.T) {
	s, _, _ := scene()
	s.change(func() {
		s.stop = check.Stop{Worker: "ada", Token: 3}
		s.cast["ada"].state = view.Stopped
	})
	require.Equal(t, view.Stopped, s.model().Queue[0].State)

	s.gone(3, 9)

	m := s.model()
	require.Len(t, m.Queue, 1)
	require.Len(t, m.Missing, 1)
	assert.Contains(t, m.Missing[0], "ada")
}

func TestTheFirstEndOfAHoldCounts(t *testing.T) {
	s, ada, _ := scene()
	s.hear(ada, wire.Event{Kind: wire.Lost, At: 10, Token: 3})
	s.hear(ada, wire.Event{Kind: wire.Released, At: 11, Token: 3})

	g := s.history().Grants[0]

	assert.Equal(t, check.Lost, g.How)
	assert.Equal(t, stamp.Stamp(10), g.End)
	assert.Equal(t, stamp.Stamp(1), g.Joined)
}

func TestHistoryHasWhatTheStoreTold(t *testing.T) {
	s, _, _ := scene()
	s.change(func() { s.kill.Token = 3 })
	s.gone(3, 9)

	h := s.history()

	assert.ElementsMatch(t, []check.Entry{{Token: 3, Deleted: 9}, {Token: 5}}, h.Entries)
	assert.NotZero(t, h.Kill.Deleted)
	assert.Zero(t, h.Stop.Deleted)
}

func TestAWorkerThatEndsUnaskedBreaksTheDemonstration(t *testing.T) {
	s, ada, bob := scene()
	s.change(func() { s.cast["ada"].state = view.Killed })
	ada.err = errors.New("signal: killed")
	s.leave(ada)
	require.Empty(t, s.faulty(), "that one was asked")
	bob.err = errors.New("exit status 70: no etcd")

	s.leave(bob)

	err := s.until(t.Context(), "anything", func() bool { return true })
	require.EqualError(t, err, "worker bob, pid 8, ended early: exit status 70: no etcd")
}

func TestAPanicBreaksTheDemonstrationAndNotTheTerminal(t *testing.T) {
	s, _, _ := scene()

	s.guard(func() { s.hear(&process{name: "nobody"}, wire.Event{Kind: wire.Ready}) })

	err := s.until(t.Context(), "anything", func() bool { return true })
	require.ErrorContains(t, err, "panic: runtime error: invalid memory address")
}

func TestUntilSaysWhatItWaitedFor(t *testing.T) {
	s, _, _ := scene()
	never := func() bool { return false }

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTooLong)
	err := s.until(ctx, "the line moves on", never)
	require.ErrorIs(t, err, errTooLong)
	require.ErrorContains(t, err, "the line moves on: ")
}

func TestUntilLooksAgainAtEveryChange(t *testing.T) {
	s, _, _ := scene()
	met := make(chan error, 1)
	go func() { met <- s.until(t.Context(), "bob alone", func() bool { return len(s.line) == 1 }) }()

	s.gone(3, 9)

	require.NoError(t, <-met)
}
