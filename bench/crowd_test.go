package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWakeTellsWhoWasToldInVain(t *testing.T) {
	before := clientCounts{events: []int64{5, 0, 7, 1}, requests: []int64{9, 0, 1, 1}, bytes: 100}
	after := clientCounts{events: []int64{6, 1, 7, 4}, requests: []int64{10, 2, 1, 4}, bytes: 150}

	w := after.since(before, []member{{client: 0}, {client: 1}})

	assert.Equal(t, wake{events: 5, inVain: 3, requests: 6, involved: 3, bytes: 50}, w)
	sum := w
	sum.add(w)
	assert.Equal(t, wake{events: 10, inVain: 6, requests: 12, involved: 6, bytes: 100}, sum)
}

func TestThoseInsideLeaveFromEitherEnd(t *testing.T) {
	a := assembly{inside: []member{{place: 1}, {place: 2}, {place: 3}}}

	assert.EqualValues(t, 3, a.next(true).place)
	assert.EqualValues(t, 1, a.next(false).place)
	assert.Equal(t, []member{{place: 2}}, a.inside)
}

func TestGatheringsFitIntoTheirTeam(t *testing.T) {
	for _, on := range services() {
		for _, amount := range []amount{quick, usual, full} {
			p := on.plan(amount).sharing
			all := p.sharings()
			most := mostContenders(all, p.sizes)
			for _, sh := range all {
				for _, n := range p.sizes {
					g := sh.gathering(n)
					assert.LessOrEqual(t, g.contenders(), most, sh.use)
					assert.Positive(t, g.releases, "%s, %d", sh.use, n)
					assert.LessOrEqual(t, g.releases*g.letIn, g.before.n+g.waiters.n, "%s, %d: somebody must be let in", sh.use, n)
					assert.NotEmpty(t, sh.curator(n))
				}
			}
			assert.Equal(t, useMutex, all[0].use, "the peer has no other")
		}
	}
}
