package trial

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRoundsOfAKindAreNumberedByThemselves(t *testing.T) {
	r := New(nil, Ours, 1)
	assert.Equal(t, []int64{1, 1, 2, 2}, []int64{r.number("a"), r.number("b"), r.number("a"), r.number("b")})

	again := New(nil, Ours, 1)
	again.First = 7
	assert.Equal(t, []int64{7, 8}, []int64{again.number("a"), again.number("a")})
}
