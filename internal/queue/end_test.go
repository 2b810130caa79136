package queue_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session"
)

// end heals everything, lets everybody hold in turn, and checks that nobody is
// forgotten and nothing is left, while the sessions live.
func (w *world) end() {
	for name := range w.clients {
		w.network("heal", name)
	}
	w.st.Delete("n", "x")
	wedged, since := int64(0), time.Now()
	for start := time.Now(); ; time.Sleep(time.Second) {
		synctest.Wait()
		if w.giveBackAll() {
			continue
		}
		line, pending := memtest.Entries(w.st, "n"), w.pending()
		if len(line) == 0 && len(pending) == 0 {
			break
		}
		first := int64(-1)
		if len(line) > 0 {
			first = line[0].Place
		}
		if first != wedged {
			wedged, since = first, time.Now()
		}
		// Who is first must hold soon; what a lost session left must expire.
		waits := time.Since(since)
		if slices.Contains(pending, first) && waits > 4*time.Second || waits > 20*time.Second || time.Since(start) > 10*time.Minute {
			w.t.Errorf("nothing moves: line %v, waiting %v", line, pending)
			break
		}
	}
	for _, r := range w.reqs {
		r.cancel()
	}
	for _, s := range w.sessions {
		assert.NoError(w.t, s.Close())
	}
	synctest.Wait()
}

// giveBackAll unlocks what is held, and says whether there was something.
func (w *world) giveBackAll() bool {
	w.mu.Lock()
	var holds []*session.Hold
	for _, r := range w.reqs {
		if r.hold != nil {
			holds = append(holds, r.hold)
			r.hold = nil
		}
	}
	w.mu.Unlock()
	for _, h := range holds {
		_ = h.Unlock() // what it says is no matter here
	}
	return len(holds) > 0
}

// pending returns the places of those who still wait; -1 for one that has none.
func (w *world) pending() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var places []int64
	for _, r := range w.reqs {
		if !r.over {
			places = append(places, r.place)
		}
	}
	return places
}
