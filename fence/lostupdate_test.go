package fence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

// counter is a resource: each holder reads it, adds one, and writes the result.
type counter struct {
	gate  fence.Gate
	value int
	acked int // writes that were accepted
}

func (c *counter) read(t session.Token, fenced bool) (value int, ok bool) {
	if fenced && c.gate.Admit(t, session.Exclusive) != nil {
		return 0, false
	}
	return c.value, true
}

func (c *counter) write(t session.Token, value int) {
	_ = c.gate.Do(t, session.Exclusive, func(fence.Marks) error {
		c.value, c.acked = value, c.acked+1
		return nil
	})
}

// losesUpdate lets holders with the tokens 1, 2, … do a read and then a write
// each, in the order of the steps. It reports whether an accepted write is lost.
func losesUpdate(steps []int, holders int, readsFenced bool) bool {
	var c counter
	read := make([]int, holders)
	turn := make([]int, holders)
	for _, i := range steps {
		token := session.Token(i + 1)
		switch turn[i]++; turn[i] {
		case 1:
			value, ok := c.read(token, readsFenced)
			if read[i] = value; !ok {
				turn[i]++ // the read was refused, so it writes nothing
			}
		case 2:
			c.write(token, read[i]+1)
		}
	}
	return c.value != c.acked
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	// The shortest case: the old holder reads and is stopped; the new one reads;
	// the old one resumes and writes; the new one overwrites that.
	assert.True(t, losesUpdate([]int{0, 1, 0, 1}, 2, false))
	assert.False(t, losesUpdate([]int{0, 1, 0, 1}, 2, true))

	runs, writesOnly, firstTouch := 0, 0, 0
	fencetest.Orders(4, func(steps []int) {
		runs++
		if losesUpdate(steps, 4, false) {
			writesOnly++
		}
		if losesUpdate(steps, 4, true) {
			firstTouch++
		}
	})

	assert.Equal(t, 2520, runs)
	assert.Greater(t, writesOnly, runs/4, "of all orders of four holders")
	assert.Zero(t, firstTouch)
	t.Logf("of %d orders of four holders %d lost an update with fenced writes, %d with fenced first touches", runs, writesOnly, firstTouch)
}
