package recipetest

import (
	"time"

	"github.com/stretchr/testify/assert"
)

// gaps are the stories of what happens between a join and the watch behind it.
func gaps() []story {
	return []story{
		{"AReleaseBeforeTheWatchStandsIsSeenByARead", releaseBeforeWatch},
	}
}

// releaseBeforeWatch: the predecessor goes when the waiter has joined and has no
// watch yet, so no event comes. The read that follows the watch must show it; in
// virtual time no timer of the waiter can have gone off by then.
func releaseBeforeWatch(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	b.net.Delay(100 * time.Millisecond)
	r := b.ask(w.soon())
	w.eventually(2, "b has joined, and has no answer yet")
	w.unlock(h)
	released := time.Now()
	h = r.granted()
	if w.h.Virtual {
		assert.Less(w.t, r.at.Sub(released), 2*time.Second, "the waiter was granted by its timer, and not by the read behind its watch")
	}
	b.net.Heal()
	w.unlock(h)
}
