package drive

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What happens before each contender has acquired once is the start of the measurement, and no
// unfairness: the others have not joined yet.
func TestTurnsShowWhoWasPassed(t *testing.T) {
	c := newCounter(3)
	start := c.soFar()
	for token, i := range []int{0, 0, 0, 1, 2} {
		c.granted(i, start, int64(token+1))
	}
	assert.Equal(t, Turns{All: []int{3, 1, 1}, Steady: []int{0, 0, 0}}, c.Turns, "nobody was passed")

	late := c.soFar() // of contender 2
	for token, i := range []int{0, 1, 0, 1, 0} {
		c.granted(i, c.soFar(), int64(token+10))
	}
	c.granted(2, late, 15)
	assert.Equal(t, Turns{All: []int{6, 3, 2}, Steady: []int{3, 2, 1}, Passed: 3}, c.Turns, "its join came late")

	c.granted(0, c.soFar(), 17)
	c.granted(1, c.soFar(), 16)
	assert.Equal(t, 1, c.Unordered, "the second was ahead, and was granted later")
}

func TestContendersWithoutTokensHaveNoOrder(t *testing.T) {
	c := newCounter(1)
	c.granted(0, c.soFar(), 0)
	assert.Equal(t, -1, c.Unordered)
}
