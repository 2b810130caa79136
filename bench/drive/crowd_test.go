package drive

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWakeTellsWhoWasToldInVain(t *testing.T) {
	before := clientCounts{events: []int64{5, 0, 7, 1}, requests: []int64{9, 0, 1, 1}, bytes: 100}
	after := clientCounts{events: []int64{6, 1, 7, 4}, requests: []int64{10, 2, 1, 4}, bytes: 150}

	w := after.since(before, []member{{client: 0}, {client: 1}})

	assert.Equal(t, Wake{Events: 5, InVain: 3, Requests: 6, Involved: 3, Bytes: 50}, w)
	sum := w
	sum.add(w)
	assert.Equal(t, Wake{Events: 10, InVain: 6, Requests: 12, Involved: 6, Bytes: 100}, sum)
}

func TestThoseInsideLeaveFromEitherEnd(t *testing.T) {
	a := assembly{inside: []member{{place: 1}, {place: 2}, {place: 3}}}

	assert.EqualValues(t, 3, a.next(true).place)
	assert.EqualValues(t, 1, a.next(false).place)
	assert.Equal(t, []member{{place: 2}}, a.inside)
}
