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

// named is a service of which only the name is used.
type named struct{ Service }

func (named) Name() string      { return "named" }
func (named) Transport() string { return "carrier" }

// TestEverySecondTrialOfEachRecipeIsQuiet: of Fairlock.
func TestEverySecondTrialOfEachRecipeIsQuiet(t *testing.T) {
	r, k := New(named{}, Ours, 1), find("holder-cut")
	for i := range 4 {
		first, second := r.newTrial(k, nil, 1, 1, i), r.newTrial(k, nil, 1, 1, i+4)
		assert.Equal(t, first.queue.Recipe, second.queue.Recipe)
		assert.NotEqual(t, first.quiet, second.quiet, "%s", first.queue.Recipe)
		for _, request := range first.requests() {
			assert.Equal(t, first.quiet, request.Quiet)
		}
	}
	assert.False(t, New(named{}, "another", 1).newTrial(k, nil, 1, 1, 1).quiet)
	assert.Equal(t, "carrier", r.newTrial(k, nil, 1, 1, 0).Transport)
}
