package etcdbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// firstAttempt is how long an endpoint may take at least. A dead connection
// costs as much, and an Unlock, which has a second in all, must get to another
// endpoint.
const firstAttempt = 400 * time.Millisecond

// longestFirst bounds what an endpoint may take at first, whatever was learned.
// A server gives a request up by itself after five seconds and a little.
const longestFirst = 5 * time.Second

// pace says how long attempts at a request may take: little at first, because
// the next endpoint may be better, but as long as answers have taken of late,
// because of a service that has too much to do, or is far away, too short an
// attempt is none at all and leaves it with more to do.
//
// What it never touches is belief: a proof counts from when its own attempt was
// sent, and renewals are not given up for being slow, see renewer.
type pace struct {
	first     time.Duration // the least
	slow      time.Duration // the most that what was learned makes of it
	most      time.Duration // and that the attempts of one request come to
	endpoints int
	learned   *learned
}

// pace is that of requests that know of no better one.
func (b *backend) pace() pace {
	return pace{
		first: firstAttempt, slow: longestFirst, most: 15 * time.Second,
		endpoints: len(b.client.Endpoints()), learned: &b.learned,
	}
}

// within is the pace of a session. Three attempts fit into the time between a
// proof and the end of belief, so that one endpoint that is dead leaves time for
// others.
func (p pace) within(cfg driver.Config) pace {
	third := max(cfg.Window/3, 200*time.Millisecond)
	p.first, p.slow, p.most = min(third, p.first), min(third, p.slow), cfg.TTL
	return p
}

// timeout is the time of the attempt with a number, after what is known of
// answers: twice as long whenever all endpoints had their chance, either in this
// request or in those before it.
func (p pace) timeout(attempt int, known answerTimes) time.Duration {
	base := min(max(known.limit(), p.first), p.slow)
	return max(
		min(base<<min(known.doubled, maxDoubled), p.slow),
		min(base<<min(p.rounds(attempt), maxDoubled), p.most),
	)
}

// rounds is how often all endpoints had their chance before an attempt.
func (p pace) rounds(attempt int) int { return attempt / max(p.endpoints, 1) }

// next is the time of an attempt that is made now.
func (p pace) next(attempt int) time.Duration { return p.timeout(attempt, p.learned.now()) }

// learned is what all requests of a backend learn together.
type learned struct {
	mu    sync.Mutex
	times answerTimes
}

func (l *learned) now() answerTimes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times
}

// answered takes in the answer to an attempt that was sent then.
func (l *learned) answered(sent time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times.answered(now, now.Sub(sent))
}

// late takes in that an attempt was given up, which had time doubled so often.
// That one endpoint does not answer says nothing of the others; that none of
// them did in turn is what makes the time of all requests longer.
func (p pace) late(attempt int, sent time.Time, doubled int) {
	if (attempt+1)%max(p.endpoints, 1) != 0 {
		return
	}
	p.learned.mu.Lock()
	defer p.learned.mu.Unlock()
	p.learned.times.unanswered(sent, max(p.rounds(attempt), doubled))
}

// errLate is why an attempt is given up.
var errLate = errors.New("etcd: no answer in time")

// once makes one attempt at a request, the one with number n. It requires a
// leader, so that a member that was cut off says so at once instead of letting
// the attempt time out.
//
// The timeout is not a deadline in the context, which would travel with the
// request and cost the server a timer. A request that is cancelled here is
// cancelled there too.
func (b *backend) once(ctx context.Context, p pace, n int, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(b.requireLeader(ctx))
	defer cancel(nil)
	sent, known := time.Now(), p.learned.now()
	doubled := known.doubled
	// The timer's goroutine may outlive this call by the moment that it needs to
	// see that ctx has ended.
	timer := time.AfterFunc(p.timeout(n, known), func() {
		if p.wait(ctx, b.clock, n, sent, doubled) {
			cancel(errLate)
		}
	})
	defer timer.Stop()
	err := b.connected(ctx)
	if err == nil {
		err = f(ctx)
	}
	switch {
	case err == nil:
		p.learned.answered(sent)
	case errors.Is(context.Cause(ctx), errLate):
		p.late(n, sent, doubled)
	}
	return err
}

// connected blocks while the client is known to have no connection, as the request
// would: it waits for one. But the client writes a warning to the user's log for
// each request that was given up, and none for a request that was not sent.
func (b *backend) connected(ctx context.Context) error {
	if b.client == nil || b.client.ActiveConnection() == nil {
		return nil
	}
	conn := b.client.ActiveConnection()
	for {
		state := conn.GetState()
		if state != connectivity.Connecting && state != connectivity.TransientFailure {
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// wait goes on waiting for an answer while others come, and show that it has
// had too little time: of many requests that are sent at once to a service that
// was idle until then, nothing was known when they were sent. That others get
// no answer either shows nothing, so it counts as often as doubled tells, which
// was known when it was sent. It says whether the attempt is late.
func (p pace) wait(ctx context.Context, clock driver.Clock, n int, sent time.Time, doubled int) bool {
	for {
		known := p.learned.now()
		known.doubled = min(known.doubled, doubled)
		rest := p.timeout(n, known) - time.Since(sent)
		if rest <= 0 {
			return ctx.Err() == nil
		}
		if !driver.Sleep(ctx, clock, rest) {
			return false
		}
	}
}
