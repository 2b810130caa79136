package membackend

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// message is one copy of a request on its way.
type message struct {
	op      fault.Op
	who     context.Context //nolint:containedctx // its values say whose request it is; may be nil
	of      string          // what it is about
	session string

	// apply acts at the service and returns what is to run when the answer
	// arrives. A request that is sent again shares its state between the
	// copies, so that it acts once, whichever copy comes first.
	apply func() (answer func())

	// broke runs if the connection breaks under the request. Nil: nobody cares.
	broke func()

	// carry, if not nil, takes the answer at the service unless it is lost,
	// and sees to its way back: in order with a session's events. If it does not
	// take it, the answer goes as any other.
	carry func(answer func()) bool

	sent     bool
	canceled bool // do not send it any more
}

// send puts a message on the way.
func (c *Client) send(m *message) {
	if c.wire != nil {
		c.schedule(m)
		return
	}
	c.st.mu.Lock()
	hook := c.onSend
	c.st.mu.Unlock()
	if hook != nil {
		hook(m.op) // without the mutex: it sets faults
	}

	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.launch(m)
}

// launch needs the mutex, like everything below that is not roundTrip.
func (c *Client) launch(m *message) {
	if m.canceled {
		return
	}
	if c.stalled {
		c.held = append(c.held, func() { c.launch(m) })
		return
	}
	m.sent = true
	c.sent[m.op]++
	hit := c.plan.Take(m.op)
	switch {
	case c.cut&fault.Requests != 0, hit == fault.LostRequest:
		return
	case hit == fault.BrokenRequest:
		c.deliver(m.broke)
		return
	case hit == fault.LateRequest:
		c.late = append(c.late, func() {
			c.st.remember()
			m.apply()
		})
		c.deliver(m.broke)
		return
	}
	c.after(c.toService, func() { c.arrive(m, hit) })
}

func (c *Client) arrive(m *message, hit fault.Kind) {
	if c.cut&fault.Requests != 0 {
		return
	}
	c.st.remember()
	answer := m.apply()
	switch {
	case hit == fault.LostReply, c.cut&fault.Replies != 0:
	case hit == fault.BrokenReply:
		c.deliver(m.broke)
	case m.carry != nil && m.carry(answer):
	default:
		c.deliver(answer)
	}
}

// deliver brings an answer back to the process.
func (c *Client) deliver(answer func()) {
	if answer == nil || c.cut&fault.Replies != 0 {
		return
	}
	c.after(c.fromThere, func() {
		switch {
		case c.cut&fault.Replies != 0:
		case c.stalled:
			c.held = append(c.held, answer)
		default:
			answer()
		}
	})
}

// after runs f with the mutex when d has passed; at once if d is 0.
func (c *Client) after(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	time.AfterFunc(d, func() {
		c.st.mu.Lock()
		defer c.st.mu.Unlock()
		f()
	})
}

// request is what roundTrip must know beside the act.
type request struct {
	op       fault.Op
	of       string          // what it is about, for schedules and for people
	session  string          // that sends it; "" if none does
	who      context.Context //nolint:containedctx // as in message; nil: the caller's
	patience time.Duration   // after which it is sent again
	over     <-chan struct{} // ends the request; nil: never

	// carry is as in message.
	carry func(answer func()) bool
}

// roundTrip sends a request until it is answered. With an error, sent says
// whether a copy of it was sent: then the outcome is unknown, and a copy may
// still arrive. So act must bear being called again, and late. It runs with the
// mutex, and is told when its copy was sent.
func roundTrip[T any](ctx context.Context, c *Client, r request, act func(sent driver.Instant) T) (answer T, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return answer, false, err
	}
	answers, broken := make(chan T, 1), make(chan struct{}, 1)
	if r.who == nil {
		r.who = ctx
	}
	wait := c.alarm()
	defer wait.stop()
	for {
		at := clock{c}.Now()
		m := &message{op: r.op, of: r.of, who: r.who, session: r.session, carry: r.carry, broke: func() { offer(broken, struct{}{}) }, apply: func() func() {
			v := act(at)
			return func() { offer(answers, v) }
		}}
		c.send(m)
		wait.set(r.patience)
		for again := false; !again; {
			select {
			case answer = <-answers:
				return answer, true, nil
			case <-broken:
				wait.set(pause)
			case <-wait.rings:
				again = true
			case <-r.over:
				err, again = driver.ErrSessionOver, true
			case <-ctx.Done():
				err, again = fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err()), true
			}
		}
		sent = c.withdraw(m) || sent
		if err == nil {
			continue
		}
		select {
		case answer = <-answers: // it came in the same moment
			return answer, true, nil
		default:
			return answer, sent, err
		}
	}
}

// withdraw keeps a message from being sent, if it was not, and says whether it
// was.
func (c *Client) withdraw(m *message) bool {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	m.canceled = true
	return m.sent
}

// offer sends v if there is room, and drops it if an earlier one is there.
func offer[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}
