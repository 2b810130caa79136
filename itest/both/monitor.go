package both

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// History is the history of entries as a server shows it to a monitor, which is
// independent of what is tested. The ID identifies an entry at the service.
type History[ID comparable] struct {
	// Of returns the entry of a turn, and Left checks with the server that no entry is
	// left. Both are set before the first entry is made.
	Of   func(u worker.Turn) ID
	Left func(t testing.TB)

	mu          sync.Mutex
	made, ended []ID             // in their order
	at          []driver.Instant // when the ends were seen
	err         error            // why the monitor sees nothing any more
	changed     chan struct{}    // closed by the next change; nil if no goroutine waits for it
}

// Made records a new entry.
func (s *History[ID]) Made(id ID) { s.record(func() { s.made = append(s.made, id) }) }

// Ended records the end of an entry that was made before.
func (s *History[ID]) Ended(id ID) {
	s.record(func() {
		if slices.Contains(s.made, id) {
			s.ended = append(s.ended, id)
			s.at = append(s.at, recipetest.Now())
		}
	})
}

// Failed records why the monitor sees nothing any more.
func (s *History[ID]) Failed(err error) { s.record(func() { s.err = err }) }

func (s *History[ID]) record(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Wait waits until the entries that were made and those that have ended meet a condition.
func (s *History[ID]) Wait(t testing.TB, what string, cond func(made, ended []ID) bool) {
	t.Helper()
	timeout := time.After(recipetest.Patience)
	for {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		made, ended := s.made, s.ended
		ok, changed, err := cond(made, ended), s.changed, s.err
		s.mu.Unlock()
		if ok {
			return
		}
		require.NoError(t, err, "of the monitor")
		select {
		case <-changed:
		case <-timeout:
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			require.Fail(t, "the server has not shown it", "%s; made %v, ended %v; goroutines:\n%s", what, made, ended, &stacks)
		}
	}
}

// Sees waits for n entries made so far, and returns all in their order.
func (s *History[ID]) Sees(t testing.TB, n int) (all []ID) {
	t.Helper()
	s.Wait(t, fmt.Sprint(n, " entries made"), func(made, _ []ID) bool {
		all = slices.Clone(made)
		return len(made) >= n
	})
	return all
}

// SeesEnd waits for the end of an entry, and returns when it was seen.
func (s *History[ID]) SeesEnd(t testing.TB, id ID) (at driver.Instant) {
	t.Helper()
	s.Wait(t, fmt.Sprint("the end of ", id), func(_, ended []ID) bool {
		i := slices.Index(ended, id)
		if i >= 0 {
			at = s.at[i]
		}
		return i >= 0
	})
	return at
}

// SeesMade waits for n entries made so far.
func (s *History[ID]) SeesMade(t testing.TB, n int) {
	t.Helper()
	s.Sees(t, n)
}

// EndOf is SeesEnd for the entry of a turn.
func (s *History[ID]) EndOf(t testing.TB, u worker.Turn) driver.Instant {
	t.Helper()
	return s.SeesEnd(t, s.Of(u))
}

// SeesNothingLeft waits until all entries that were made have ended, and checks that
// with the server.
func (s *History[ID]) SeesNothingLeft(t testing.TB) {
	t.Helper()
	s.Wait(t, "nothing left", func(made, ended []ID) bool { return len(ended) == len(made) })
	s.Left(t)
}

// CheckTurns is [worker.CheckTurns] for all entries that were seen. If all turns are of one session,
// it is for those that had a turn, because others may have given up. And entries may have ended in
// another order: a session passes a lock on before the service has carried out the release.
func (s *History[ID]) CheckTurns(t testing.TB, turns []worker.Turn, oneSession bool) {
	t.Helper()
	s.Sees(t, len(turns))
	s.SeesNothingLeft(t)
	s.mu.Lock()
	made, ended := slices.Clone(s.made), slices.Clone(s.ended)
	s.mu.Unlock()
	if oneSession {
		held := map[ID]bool{}
		for _, u := range turns {
			held[s.Of(u)] = true
		}
		gaveUp := func(id ID) bool { return !held[id] }
		made, ended = slices.DeleteFunc(made, gaveUp), slices.DeleteFunc(ended, gaveUp)
		assert.ElementsMatch(t, made, ended, "all were released")
		ended = made
	}
	worker.CheckTurns(t, turns, s.Of, made, ended)
	worker.LogPace(t, turns)
}
