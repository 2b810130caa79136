package membackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// request describes a request to roundTrip.
type request struct {
	op      fault.Op
	of      string          // the subject, for schedules and errors
	session string          // of the sender; "" if there is none yet
	caller  context.Context //nolint:containedctx // its values identify the caller; nil: the context of the call
	timeout time.Duration   // after which it is sent again
	over    <-chan struct{} // ends the request; nil: never
	copies  *int            // counts the copies that were sent; may be nil
}

// roundTrip sends a request, and sends it again until it is answered. With an error, sent
// reports whether a copy was sent: then the outcome is unknown, and a copy may still
// arrive. So act may be called more than once, and late. It is called with the Store's
// mutex, and gets the time at which its copy was sent.
//
//	it returns              the outcome
//	an answer               done, or refused, as the answer shows
//	an error, and not sent  not done: every copy was withdrawn before it left the process
//	an error, and sent      unknown: a copy is lost, late, or done and its answer is lost
//
// The answer to any copy will do, also to one that was sent before the last timeout.
func roundTrip[T any](ctx context.Context, c *Client, r request, act func(sent driver.Instant) T) (answer T, sent bool, err error) {
	answers := make(chan T, 1)
	if r.caller == nil {
		r.caller = ctx
	}
	for {
		if ctx.Err() != nil { // first: a term ends its contexts before its session
			return answer, sent, driver.ContextError(ctx)
		}
		select {
		case <-r.over:
			return answer, sent, driver.ErrSessionOver
		default:
		}
		// A copy that has not left the process when its attempt is over is withdrawn: so
		// without any launched copy the outcome is known, nothing was done. A stalled process
		// keeps such copies. Launch and the end of the attempt exclude each other by the
		// mutex, so no copy leaves after it was counted as withdrawn.
		var launched, withdrawn bool // guarded by the Store's mutex
		again := make(chan struct{}, 1)
		wake := func() { offer(again, struct{}{}) }
		if r.copies != nil {
			*r.copies++
		}
		at := c.wire.Now()
		c.wire.Send(memory.Request{
			Ctx: r.caller, Op: r.op, Of: r.of, Session: r.session,
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
			Broke: func() { c.wire.AfterFunc(backoff, wake) },
		})
		stop := c.wire.AfterFunc(r.timeout, wake)
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
		case answer = <-answers: // it came at the same moment
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

// answer is the service's answer to a request.
type answer[T any] struct {
	v   T
	rev int64 // of the service at that moment, which the session learns
	err error // the service's own: nothing was changed

	// repeated: the answer is to another copy than the first that arrived. What the copies
	// have changed, the first one has.
	repeated bool
}

// do sends copies of one request until one is answered. The service carries out the first
// that arrives, and repeats its answer to the others. The answer is about queues, see
// learned. With an error, unknown reports whether a copy may have arrived, or may arrive.
//
//	the error is of           unknown   what it means
//	roundTrip, nothing sent   false     not done
//	roundTrip, a copy sent    true      the outcome is unknown
//	the service               false     not done; errNoLease: the session is over, which lose reports
//
// The session learns the revision before do returns: a read that the caller sends next is not older.
func do[T any](ctx context.Context, s *memSession, r request, queues []string, act func() (T, error)) (a answer[T], unknown bool, err error) {
	var first *answer[T] // guarded by the Store's mutex
	r.session, r.timeout = s.id, s.timeout
	a, sent, err := roundTrip(ctx, s.c, r, func(driver.Instant) answer[T] {
		// Whether an earlier copy has arrived is not part of the answer, as on a real
		// service: a.repeated makes the methods of memSession hide what it would show.
		if first != nil {
			first.repeated = true
			return *first
		}
		v, err := act()
		first = &answer[T]{v: v, rev: s.c.st.rev, err: err}
		return *first
	})
	unknown = sent && err != nil
	if err == nil {
		err = a.err
		s.learned(a.rev, queues...)
	}
	if errors.Is(err, errNoLease) {
		s.lose(err)
	}
	if err != nil {
		err = fmt.Errorf("memory: %s %s: %w", r.op, r.of, err)
	}
	return a, unknown, err
}

// learned records that the session was shown queues as of a revision, for a kind that is
// Stale: later reads must not be older. The name "" stands for all queues. Answers overtake each
// other, so an older revision changes nothing.
func (s *memSession) learned(rev int64, queues ...string) {
	s.c.st.mu.Lock()
	defer s.c.st.mu.Unlock()
	for _, q := range queues {
		if s.c.st.o.Stale > 0 {
			s.floors[q] = max(s.floors[q], rev)
		}
	}
}

// forget changes the results of a repeated answer to what a client can know: not whether an
// earlier copy has done an optional Op. A required Op is known to be done, because the request was.
func (a answer[T]) forget(ops []driver.Op, results []driver.Result) {
	for i := range results {
		results[i].Done = results[i].Done && !(a.repeated && ops[i].Optional)
	}
}
