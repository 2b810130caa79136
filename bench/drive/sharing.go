package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// A Group is N requests that are made at the same time.
type Group struct {
	N    int
	In   int // the number of contenders that make them; 0 is N
	Lock Recipe
}

// contenders returns the number of contenders of the group.
func (c Group) contenders() int {
	if c.In == 0 {
		return c.N
	}
	return min(c.N, c.In)
}

// A Sharing is a job with a queue of several groups, which join one after another. It counts the
// requests and events of all clients that a release causes.
type Sharing struct {
	Holders  Group // hold together
	Before   Group // wait, ahead of Waiters
	Waiters  Group
	Releases int
	LetIn    int           // the number of grants that each release causes
	Nearest  bool          // the holder nearest to the waiters releases first; otherwise the oldest
	Rapid    bool          // releases follow each other without a pause, and only sums are known
	Settle   time.Duration // how long nothing must happen before a release is counted
}

// Contenders returns the number of contenders that the job needs.
func (g Sharing) Contenders() int {
	return g.Holders.contenders() + g.Before.contenders() + g.Waiters.contenders()
}

// Wake is what releases caused until nothing happened any more.
type Wake struct {
	Events   int64 // received by all clients
	InVain   int64 // of them, by clients other than the releasing and the granted ones
	Requests int64 // of all clients, without periodic ones
	Involved int64 // of them, by the releasing and the granted clients
	Bytes    int64
}

func (w *Wake) add(o Wake) {
	w.Events += o.Events
	w.InVain += o.InVain
	w.Requests += o.Requests
	w.Involved += o.Involved
	w.Bytes += o.Bytes
}

// holder is a contender that holds.
type holder struct {
	client int
	place  int64
	unlock func() error
}

// maxParallel bounds how many holders release at the same time.
const maxParallel = 64

// timeout bounds one job: a request that is not granted by then will never be.
const timeout = 2 * time.Minute

// run fills the queue and releases. It returns what all releases together caused. For rapid
// releases only the sums are known.
func (g Sharing) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (sum Wake, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := newLineup(ctx, s, t, name, g.Holders.N+g.Before.N+g.Waiters.N)
	defer func() { err = errors.Join(err, l.stop()) }()
	if err := l.form(ctx, g.Holders, g.Before, g.Waiters); err != nil {
		return sum, err
	}
	if err := t.Quiet(ctx, g.Settle); err != nil {
		return sum, err
	}
	before := countsOf(t)
	for range g.Releases {
		h := l.next(g.Nearest)
		if err := h.unlock(); err != nil {
			return sum, err
		}
		involved, err := l.expect(ctx, g.LetIn)
		if err != nil {
			return sum, err
		}
		if g.Rapid {
			continue
		}
		if err := t.Quiet(ctx, g.Settle); err != nil {
			return sum, err
		}
		after := countsOf(t)
		sum.add(after.since(before, append(involved, h)))
		before = after
	}
	if g.Rapid {
		if err := t.Quiet(ctx, g.Settle); err != nil {
			return sum, err
		}
		sum.add(countsOf(t).since(before, nil))
	}
	return sum, nil
}

// lineup is the queue of a running job.
type lineup struct {
	s    stand.Stand
	t    *stand.Team
	name string

	waiting context.Context //nolint:containedctx // of the waiters
	cancel  context.CancelFunc
	g       errgroup.Group
	granted chan holder // holders that expect has not received
	holders []holder    // in the order of the queue
	joined  int
	used    int // the number of contenders in use
}

// newLineup returns an empty lineup for at most n requests.
func newLineup(ctx context.Context, s stand.Stand, t *stand.Team, name string, n int) *lineup {
	l := &lineup{s: s, t: t, name: name, granted: make(chan holder, n)}
	l.waiting, l.cancel = context.WithCancel(ctx)
	return l
}

// form lets groups join, one after another. The first one acquires.
func (l *lineup) form(ctx context.Context, holders Group, others ...Group) error {
	for i, c := range append([]Group{holders}, others...) {
		l.join(c)
		if err := joined(ctx, l.s, l.t.QueueOf(l.name), l.joined); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if _, err := l.expect(ctx, c.N); err != nil {
			return err
		}
	}
	return nil
}

// join lets a group join.
func (l *lineup) join(c Group) {
	for i := range c.N {
		client := l.used + i%c.contenders()
		l.g.Go(func() error {
			unlock, place, err := c.Lock.lock(l.waiting, l.t.Contenders[client], l.name)
			switch {
			case err == nil:
				l.granted <- holder{client, place, unlock}
			case l.waiting.Err() == nil:
				l.cancel() // otherwise expect would wait for this request
				return err
			}
			return nil
		})
	}
	l.used += c.contenders()
	l.joined += c.N
}

// expect waits until n more requests are granted.
func (l *lineup) expect(ctx context.Context, n int) ([]holder, error) {
	var hs []holder
	for range n {
		select {
		case h := <-l.granted:
			hs = append(hs, h)
		case <-l.waiting.Done():
			return nil, fmt.Errorf("%d of %d were granted: %w", len(hs), n, errors.Join(ctx.Err(), errNoGrant))
		}
	}
	l.holders = append(l.holders, hs...)
	slices.SortStableFunc(l.holders, func(x, y holder) int { return cmp.Compare(x.place, y.place) })
	return hs, nil
}

var errNoGrant = errors.New("no more grants will come")

// next removes the holder that releases next.
func (l *lineup) next(nearest bool) holder {
	i := 0
	if nearest {
		i = len(l.holders) - 1
	}
	h := l.holders[i]
	l.holders = slices.Delete(l.holders, i, i+1)
	return h
}

// stop ends all waits and releases all holds. Locks that ignore contexts are granted and
// released first.
func (l *lineup) stop() error {
	l.cancel()
	var releases errgroup.Group
	releases.SetLimit(maxParallel)
	for _, h := range l.holders {
		releases.Go(h.unlock)
	}
	var err error
	over := make(chan struct{})
	go func() { // ends when all requests have returned
		err = l.g.Wait()
		close(over)
	}()
	for {
		select {
		case h := <-l.granted:
			releases.Go(h.unlock)
			continue
		case <-over:
		}
		break
	}
	for len(l.granted) > 0 {
		releases.Go((<-l.granted).unlock)
	}
	return errors.Join(err, releases.Wait())
}

// clientCounts are the events and requests of each client.
type clientCounts struct {
	events, requests []int64
	bytes            int64 // of all clients
}

func countsOf(t *stand.Team) clientCounts {
	c := clientCounts{bytes: t.Sent().Bytes}
	for _, tally := range t.Tallies {
		c.events, c.requests = append(c.events, tally.Events()), append(c.requests, tally.Prompted())
	}
	return c
}

// since returns the difference to earlier counts, when these holders were involved.
func (c clientCounts) since(earlier clientCounts, involved []holder) Wake {
	w := Wake{Bytes: c.bytes - earlier.bytes}
	for i := range c.events {
		events, requests := c.events[i]-earlier.events[i], c.requests[i]-earlier.requests[i]
		w.Events += events
		w.Requests += requests
		if slices.ContainsFunc(involved, func(h holder) bool { return h.client == i }) {
			w.Involved += requests
		} else {
			w.InVain += events
		}
	}
	return w
}
