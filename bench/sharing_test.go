package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSharingJobsFitIntoTheirTeam(t *testing.T) {
	for _, on := range services() {
		for _, amount := range []amount{quick, usual, full} {
			p := on.plan(amount).sharing
			all := p.sharings()
			most := maxContenders(all, p.sizes)
			for _, sh := range all {
				for _, n := range p.sizes {
					g := sh.job(n)
					assert.LessOrEqual(t, g.Contenders(), most, sh.use)
					assert.Positive(t, g.Releases, "%s, %d", sh.use, n)
					assert.LessOrEqual(t, g.Releases*g.LetIn, g.Before.N+g.Waiters.N, "%s, %d: each release must grant a waiter", sh.use, n)
					assert.NotEmpty(t, sh.curator(n))
				}
			}
			assert.Equal(t, useMutex, all[0].use, "the peer has no other")
		}
	}
}
