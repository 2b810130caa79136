package job

import (
	"context"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

// heeded are the asks for which we have yielded. Who leads again while one of them
// stands would come and go for as long as it does.
type heeded map[heededAsk]bool

type heededAsk struct {
	session string
	since   int64
}

// heed listens to those who ask us to yield, until stop, and tells of them. The
// context ends when we are to: stop says whether that was so.
func (j *job) heed(ctx context.Context, h *session.Hold) (_ context.Context, stop func() (yields bool)) {
	ctx, cancel := context.WithCancel(ctx)
	yields, done := false, make(chan struct{})
	listening, deafen := context.WithCancel(ctx)
	go func() { // ends with stop
		defer close(done)
		if j.listen(listening, h) {
			yields = true
			cancel()
		}
	}()
	return ctx, func() bool {
		deafen()
		<-done
		cancel()
		return yields
	}
}

// listen tells of asks until it comes to one that is to be followed, which it says.
func (j *job) listen(ctx context.Context, h *session.Hold) (yields bool) {
	for {
		a, err := h.Asked(ctx)
		if err != nil {
			if ctx.Err() == nil && h.Context().Err() == nil { // a permission is missing
				j.tell.say("cannot receive yield requests: %s", exit.Plain(err))
			}
			return false
		}
		id := heededAsk{a.Session, a.Since.UnixNano()}
		if j.heeded[id] {
			continue
		}
		j.asked(h, a)
		if j.Yield {
			j.heeded[id] = true
			return true
		}
	}
}

// asked tells that somebody asks.
func (j *job) asked(h *session.Hold, a session.Ask) {
	ask := schema.NewAsk(a)
	text := "asked to yield by " + ask.Who()
	if ask.Reason != "" {
		text += ": " + ask.Reason
	}
	j.tell.say("%s", text)
	j.tell.report(schema.StateAsked, func(s *schema.Status) {
		s.Token, s.Left, s.Ask = int64(h.Token()), schema.Seconds(h.Remaining()), &ask
	})
}
