package fence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// counter is a resource: each holder reads it, and writes one more.
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

// play lets holders with the tokens 1, 2, … do a read and then a write each, in
// the order that the steps name them, and says whether an accepted write is lost.
func play(steps []int, holders int, readsFenced bool) bool {
	var c counter
	read := make([]int, holders)
	turn := make([]int, holders)
	for _, i := range steps {
		token := session.Token(i + 1)
		switch turn[i]++; turn[i] {
		case 1:
			value, ok := c.read(token, readsFenced)
			if read[i] = value; !ok {
				turn[i]++ // it is told, and writes nothing
			}
		case 2:
			c.write(token, read[i]+1)
		}
	}
	return c.value != c.acked
}

// orders calls f with every order in which holders can do two steps each. Any can
// happen: all but one may have lost the lock and not know, because they were
// stopped for as long as it takes.
func orders(holders int, f func(steps []int)) {
	left := make([]int, holders)
	for i := range left {
		left[i] = 2
	}
	var next func(steps []int)
	next = func(steps []int) {
		if len(steps) == 2*holders {
			f(steps)
			return
		}
		for i := range left {
			if left[i] > 0 {
				left[i]--
				next(append(steps, i))
				left[i]++
			}
		}
	}
	next(nil)
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	// The shortest: the old holder reads and is stopped; the new one reads; the
	// old one wakes up and writes; the new one writes over it.
	assert.True(t, play([]int{0, 1, 0, 1}, 2, false))
	assert.False(t, play([]int{0, 1, 0, 1}, 2, true))

	runs, writesOnly, firstTouch := 0, 0, 0
	orders(4, func(steps []int) {
		runs++
		if play(steps, 4, false) {
			writesOnly++
		}
		if play(steps, 4, true) {
			firstTouch++
		}
	})

	assert.Equal(t, 2520, runs)
	assert.Greater(t, writesOnly, runs/4, "of all orders of four holders")
	assert.Zero(t, firstTouch)
	t.Logf("of %d orders of four holders %d lost an update with fenced writes, %d with fenced first touches", runs, writesOnly, firstTouch)
}
