package job

import (
	"context"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// yieldedTo are the yield requests for which we have yielded already. Elect ignores them
// when it leads again. Otherwise it would yield again and again while a request is not
// withdrawn.
type yieldedTo map[requestID]bool

// requestID identifies a yield request.
type requestID struct {
	session string
	since   int64
}

// untilAsked reports yield requests until stop is called. With --on-ask stop, the context
// ends at the first request; stop reports whether it did.
func (j *job) untilAsked(ctx context.Context, h *session.Hold) (_ context.Context, stop func() (yields bool)) {
	ctx, cancel := context.WithCancel(ctx)
	yields, done := false, make(chan struct{})
	listening, stopListening := context.WithCancel(ctx)
	go func() { // ends with stop
		defer close(done)
		if j.receive(listening, h) {
			yields = true
			cancel()
		}
	}()
	return ctx, func() bool {
		stopListening()
		<-done
		cancel()
		return yields
	}
}

// receive reports yield requests until ctx ends. It reports whether it returned because
// we must yield.
func (j *job) receive(ctx context.Context, h *session.Hold) (yields bool) {
	for {
		a, err := yield.Next(ctx, h)
		if err != nil {
			if ctx.Err() == nil && h.Context().Err() == nil { // a permission is missing
				j.rep.info("cannot receive yield requests: %s", exit.Plain(err))
			}
			return false
		}
		id := requestID{a.Session, a.Since.UnixNano()}
		if j.yieldedTo[id] {
			continue
		}
		j.asked(h, a)
		if j.Yield {
			j.yieldedTo[id] = true
			return true
		}
	}
}

// asked reports a yield request.
func (j *job) asked(h *session.Hold, a yield.Request) {
	ask := schema.NewAsk(a)
	text := "asked to yield by " + ask.Who()
	if ask.Reason != "" {
		text += ": " + ask.Reason
	}
	j.rep.info("%s", text)
	j.rep.report(schema.StateAsked, func(s *schema.Status) {
		s.Token, s.Left, s.Ask = int64(h.Token()), schema.Seconds(h.Remaining()), &ask
	})
}
