package worker

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Turn is one hold as its holder saw it: from after Lock returned until before
// Unlock was called.
type Turn struct {
	Token      int64
	Key        string // of the entry
	PID        int
	Begin, End driver.Instant
}

// TurnOf begins a turn: the hold was just granted.
func TurnOf(h *session.Hold) Turn {
	return Turn{Begin: recipetest.Now(), Token: int64(h.Token()), Key: recipetest.Refs(h)[0].Key, PID: os.Getpid()}
}

// TakenByMany has processes take turns as the job describes, and returns all turns when the
// processes have ended.
func (j Job) TakenByMany(t testing.TB, processes int) []Turn {
	t.Helper()
	all := make([]*Process, processes)
	for i := range all {
		all[i] = j.Start(t)
	}
	var turns []Turn
	pids := map[int]bool{}
	for _, p := range all {
		for range j.Turns {
			u := Report[Turn](t, p)
			turns = append(turns, u)
			pids[u.PID] = true
		}
		p.Ends(t)
	}
	assert.Len(t, pids, processes)
	return turns
}

// CheckTurns sorts the turns, and checks that they did not overlap, that tokens rose from
// each to the next, and that they were in the order in which the server made and deleted
// the entries, each of which had its turn. The id of a turn's entry is as in made and
// ended.
func CheckTurns[ID comparable](t testing.TB, turns []Turn, id func(Turn) ID, made, ended []ID) {
	t.Helper()
	slices.SortFunc(turns, func(a, b Turn) int { return int(a.Begin - b.Begin) })
	tokens, ids := make([]int64, len(turns)), make([]ID, len(turns))
	overlaps, falls := 0, false
	for i, u := range turns {
		tokens[i], ids[i] = u.Token, id(u)
		if i > 0 && u.Begin < turns[i-1].End {
			overlaps++
		}
		falls = falls || i > 0 && u.Token <= turns[i-1].Token
	}
	assert.Zero(t, overlaps, "overlaps")
	assert.False(t, falls, "tokens that do not rise: %v", tokens)
	assert.Equal(t, made, ids, "granted in the order in which the entries were made")
	assert.Equal(t, made, ended, "released in that order")
}

// LogPace logs the times of turns that CheckTurns has sorted.
func LogPace(t testing.TB, turns []Turn) {
	t.Helper()
	var longest time.Duration
	switches := 0
	for i := range turns[1:] {
		longest = max(longest, turns[i+1].Begin.Sub(turns[i].End))
		if turns[i].PID != turns[i+1].PID {
			switches++
		}
	}
	all := turns[len(turns)-1].End.Sub(turns[0].Begin)
	t.Logf("%d turns in %s, longest pause %s, from one process to another %d times", len(turns), all, longest, switches)
}
