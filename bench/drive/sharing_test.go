package drive

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSinceCountsEventsInVain(t *testing.T) {
	before := clientCounts{events: []int64{5, 0, 7, 1}, requests: []int64{9, 0, 1, 1}, bytes: 100}
	after := clientCounts{events: []int64{6, 1, 7, 4}, requests: []int64{10, 2, 1, 4}, bytes: 150}

	w := after.since(before, []holder{{client: 0}, {client: 1}})

	assert.Equal(t, Wake{Events: 5, InVain: 3, Requests: 6, Involved: 3, Bytes: 50}, w)
	sum := w
	sum.add(w)
	assert.Equal(t, Wake{Events: 10, InVain: 6, Requests: 12, Involved: 6, Bytes: 100}, sum)
}

func TestNextReturnsTheOldestOrTheNearestHolder(t *testing.T) {
	l := lineup{holders: []holder{{place: 1}, {place: 2}, {place: 3}}}

	assert.EqualValues(t, 3, l.next(true).place)
	assert.EqualValues(t, 1, l.next(false).place)
	assert.Equal(t, []holder{{place: 2}}, l.holders)
}
