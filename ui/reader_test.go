package ui

import (
	"fmt"
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
		answers, _ := r.pick(names, now)
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
