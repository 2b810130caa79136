package recipetest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
)

// stalled returns for how long since then the machine did not run this process. Nothing
// in the process can be on time meanwhile. In virtual time it is 0.
func (w *Fixture) stalled(then time.Time) time.Duration {
	if w.pace == nil {
		return 0
	}
	return w.pace.Stalled(then)
}

// prompt asserts that something took less than Harness.Prompt, not counting the time
// in which the process did not run.
func (w *Fixture) prompt(from, to time.Time, why ...any) {
	w.t.Helper()
	assert.Less(w.t, to.Sub(from)-w.stalled(from), w.h.Prompt, why...)
}

// late reports whether the process did not run for half of the least margin, a tenth of
// the TTL, in the two margins before now. No context can end in time then.
func (w *Fixture) late(now time.Time) bool { return w.stalled(now.Add(-w.short/5)) > w.short/20 }

// wrongly is how long a case waits for an event that must not come. The engine watches a hold
// after a quarter of it.
const wrongly = 200 * time.Millisecond

// lostFirst asserts that the context of a holder ended before another session was
// granted the lock.
func (w *Fixture) lostFirst(lost, granted time.Time) {
	w.t.Helper()
	assert.True(w.t, lost.Before(granted) || w.late(granted), "the context ended %s after the next grant", lost.Sub(granted))
}

// endedFirst asserts that the context of a hold has ended, because another session
// holds its lock.
func (w *Fixture) endedFirst(h *session.Hold, why string, args ...any) {
	w.t.Helper()
	if h.Context().Err() == nil && w.late(time.Now()) {
		Wait(w.t, h.Context().Done(), "the end of a context")
	}
	assert.Error(w.t, h.Context().Err(), append([]any{why}, args...)...)
}
