package membackend

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// request is what roundTrip must know beside the act.
type request struct {
	op       fault.Op
	of       string          // the subject, for schedules and errors
	session  string          // that sends it; "" if none does
	who      context.Context //nolint:containedctx // its values identify the caller; nil: the context of the call
	patience time.Duration   // after which it is sent again
	over     <-chan struct{} // ends the request; nil: never
	copies   *int            // counts those that were sent; nil: nobody wants to know
}

// roundTrip sends a request until it is answered. With an error, sent reports whether a
// copy of it was sent: then the outcome is unknown, and a copy may still arrive. So act
// must bear being called again, and late. It is called with the Store's mutex, and is
// given the time at which its copy was sent.
func roundTrip[T any](ctx context.Context, c *Client, r request, act func(sent driver.Instant) T) (answer T, sent bool, err error) {
	answers := make(chan T, 1)
	if r.who == nil {
		r.who = ctx
	}
	for {
		select {
		case <-r.over:
			return answer, sent, driver.ErrSessionOver
		case <-ctx.Done():
			return answer, sent, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
		default:
		}
		var launched, withdrawn bool // guarded by the Store's mutex
		again := make(chan struct{}, 1)
		ring := func() { offer(again, struct{}{}) }
		if r.copies != nil {
			*r.copies++
		}
		at := c.wire.Now()
		c.wire.Send(memory.Request{
			Ctx: r.who, Op: r.op, Of: r.of, Session: r.session,
			Launch: func() bool {
				c.st.mu.Lock()
				defer c.st.mu.Unlock()
				launched = launched || !withdrawn
				return !withdrawn
			},
			Arrive: func(reply bool) func() {
				c.st.mu.Lock()
				defer c.st.mu.Unlock()
				v := act(at)
				if !reply {
					return nil
				}
				return func() { offer(answers, v) }
			},
			Broke: func() { c.wire.AfterFunc(pause, ring) },
		})
		stop := c.wire.AfterFunc(r.patience, ring)
		select {
		case answer = <-answers:
			stop()
			return answer, true, nil
		case <-again:
		case <-r.over:
		case <-ctx.Done():
		}
		stop()
		c.st.mu.Lock()
		withdrawn, sent = true, sent || launched
		c.st.mu.Unlock()
		select {
		case answer = <-answers: // it came in the same moment
			return answer, true, nil
		default:
		}
	}
}

// offer sends v if there is room, and drops it if an earlier one is there.
func offer[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}
