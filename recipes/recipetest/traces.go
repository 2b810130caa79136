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
		{"WaiterLearnsTheTraceOfTheHoldThatItWaitsFor", func(w *Fixture) { traced(w, lock) }},
		{"CandidateLearnsTheTraceOfTheLeaderThatItWaitsFor", func(w *Fixture) {
			traced(w, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
				return election.New(s, name).Campaign(ctx, "a value, so the service keeps the trace elsewhere")
			})
		}},
	}
}

// traced: the trace of each request is the label of its client. A waiter reads the trace
// while it waits, and nothing shows when it has, so a hold that was too short for that is
// repeated.
func traced(w *Fixture, acquire locking) {
	ended := make(chan session.Event, 1)
	open := func(label string, change func(*session.Hooks)) *Client {
		return w.open(label, w.h.TTL, func(o *session.Options) {
			o.Hooks.Trace = func(context.Context) string { return "trace-of-" + label }
			change(&o.Hooks)
		})
	}
	a := open("a", func(*session.Hooks) {})
	b := open("b", func(h *session.Hooks) {
		before := h.Ended
		h.Ended = func(ctx context.Context, e session.Event) {
			before(ctx, e)
			ended <- e
		}
	})
	for trace, round := "", 0; trace == ""; round++ {
		require.Less(w.t, round, 10, "the waiter does not learn the trace")
		h := a.holds(acquire)
		r := b.queueFor(w.soon(), acquire)
		b.rests()
		w.unlock(h)
		w.unlock(r.granted())
		e := <-ended
		require.NotNil(w.t, e.WaitedFor)
		assert.Equal(w.t, Refs(h)[0].Key, e.WaitedFor.Key)
		if trace = e.WaitedFor.Trace; trace != "" {
			assert.Equal(w.t, "trace-of-a", trace)
			assert.Equal(w.t, h.SessionID(), e.WaitedFor.Session)
		}
	}
}
