package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// TestATryIsRefusedByAViewOfAllThatAreAhead: nothing here waits, so nothing has reported that 1 has
// been released.
func TestATryIsRefusedByAViewOfAllThatAreAhead(t *testing.T) {
	c := newCore(t)
	runCase(c, "permit 3 1p 2p limit 4\npermit 4 ... 2p 3p limit 4 of 3\nsend\nanswer 1p* 2p* 3p 4p limit 4")
	v := view(t, "... 3p 4p limit 4")
	v.Count = 3
	mine := driver.Entry{Ref: ref(9), Mode: driver.Weighted, Weight: 1, Token: 9}
	c.joins++
	en := c.joins1(Spec{Rule: rule.Semaphore(), Try: true}, driver.Joined{Entry: mine, View: v})
	c.entries[9] = en
	assert.False(t, en.leaving, "it is not refused")
	assert.Contains(t, runCase(c, "send"), "reads from 9 to 9, nearest 0")
	runCase(c, "answer 2p* 3p 4p 9p limit 4")
	assert.Equal(t, held, en.state)
}
