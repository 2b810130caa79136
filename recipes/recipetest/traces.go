package recipetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// traces are the cases of programs whose entries name a trace.
func traces() []testCase {
	return []testCase{
		{"QueueShowsTheTraceOfEachRequest", func(w *Fixture) { traced(w, lock) }},
		{"QueueShowsTheTraceOfEachCandidate", func(w *Fixture) {
			traced(w, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
				return election.New(s, name).Campaign(ctx, "a value, so the service keeps the trace elsewhere")
			})
		}},
	}
}

// traced: the trace of each request is the label of its client.
func traced(w *Fixture, acquire locking) {
	open := func(label string) *Client {
		return w.open(label, w.h.TTL, func(o *session.Options) {
			o.Hooks.Trace = func(context.Context) string { return "trace-of-" + label }
		})
	}
	a, b := open("a"), open("b")
	h := a.holds(acquire)
	r := b.queueFor(w.soon(), acquire)
	b.rests()

	queue, err := b.Queue(w.soon(), name)
	require.NoError(w.t, err)
	require.Len(w.t, queue, 2)
	assert.Equal(w.t, "trace-of-a", queue[0].Trace)
	assert.Equal(w.t, "trace-of-b", queue[1].Trace)
	w.unlock(h)
	w.unlock(r.granted())
}
