package recipetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

// crowds are the stories of many holders beside whom there is room.
func crowds() []story {
	return []story{
		{"AFreeReadLockBehindManyCostsOneReadMoreThanBehindTwo", func(w *Fixture) { w.besideMany(reading) }},
		{"AFreePermitBehindManyCostsOneReadMoreThanBehindTwo", func(w *Fixture) { w.besideMany(wanting(1, 10_000)) }},
	}
}

// holders is how many hold. Reads that show eight times as many entries each time need
// four for so many; two are enough.
const holders = 200

// besideMany counts what a hold sends that is granted beside two, and beside many
// of another session. What a backend sends for each hold is in both.
func (w *Fixture) besideMany(lock locking) {
	many, one := w.Client("many"), w.Client("one")
	var holds []*session.Hold
	add := func(n int) {
		for range n {
			h, err := lock(w.soon(), many.Session)
			require.NoError(w.t, err)
			holds = append(holds, h)
			<-many.joined
		}
	}
	// Of three plays the cheapest: what is sent in the background may be counted,
	// and may come later.
	cost := func() int {
		least := 1 << 30
		for range 3 {
			before := one.rests()
			h, err := lock(w.soon(), one.Session)
			least = min(least, one.net.Requests()-before)
			require.NoError(w.t, err)
			<-one.joined
			w.unlock(h)
		}
		return least
	}
	add(2)
	few := cost()
	add(holders - 2)
	assert.LessOrEqual(w.t, cost(), few+1, "requests to hold behind %d holders, beside %d behind two", holders, few)
	for _, h := range holds {
		w.unlock(h)
	}
}
