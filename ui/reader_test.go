package ui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestQueuesThatAreNotAnsweredStarveNoOthers: the first queues by name are refused, so none
// of them is ever on the board, and the clock is set back.
func TestQueuesThatAreNotAnsweredStarveNoOthers(t *testing.T) {
	r, now := newReader(nil, "", time.Second), time.Now()
	var names []string
	for i := range 2 * mostReads {
		names = append(names, fmt.Sprintf("lock-%03d", i))
	}
	seen := map[string]int{}
	for range 4 {
		answers, _ := r.pick(names, true, now)
		for i := range answers {
			seen[answers[i].name]++
			if answers[i].name >= names[mostReads] {
				r.board.locks[answers[i].name] = &lock{name: answers[i].name, at: now.UnixMilli()}
			}
		}
		r.credit = mostEntries
		now = now.Add(-time.Hour)
	}

	for _, name := range names {
		assert.Equal(t, 2, seen[name], name)
	}
}

// TestQueuesOfADeadlockInDoubtAreReadNext: each tick reads half of the queues, in turn.
func TestQueuesOfADeadlockInDoubtAreReadNext(t *testing.T) {
	r := newReader(nil, "", time.Second)
	var names []string
	for i := range 2 * mostReads {
		names = append(names, fmt.Sprintf("lock-%03d", i))
	}
	picks := func(name string) bool {
		r.credit = mostEntries
		answers, _ := r.pick(names, true, time.Now())
		return slices.ContainsFunc(answers, func(a answer) bool { return a.name == name })
	}
	first, last := names[0], names[2*mostReads-1]
	assert.True(t, picks(first))
	assert.True(t, picks(last))

	r.board.waiting.doubt = map[string]bool{last: true}

	assert.True(t, picks(last))
	r.board.waiting.doubt = nil
	assert.False(t, picks(first))
}
