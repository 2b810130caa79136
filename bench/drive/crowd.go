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

// A Crowd is so many who do the same at the same time.
type Crowd struct {
	N    int
	In   int // over so many contenders; 0 is one for each
	Lock Recipe
}

// contenders is over how many contenders a crowd spreads.
func (c Crowd) contenders() int {
	if c.In == 0 {
		return c.N
	}
	return min(c.N, c.In)
}

// A Gathering is a line of several crowds, who come one after another. What is
// counted is what clients send and are told when one gives back.
type Gathering struct {
	Holders  Crowd // hold together
	Before   Crowd // wait, before
	Waiters  Crowd
	Releases int
	LetIn    int           // how many each release lets in
	Nearest  bool          // the holder nearest to the waiters releases first; else the one that came first
	Rapid    bool          // a release follows upon the other, and only the sum is known
	Settle   time.Duration // how long nothing must happen until a release is counted
}

// Contenders is how many a gathering needs.
func (g Gathering) Contenders() int {
	return g.Holders.contenders() + g.Before.contenders() + g.Waiters.contenders()
}

// Wake is what releases have caused, until all was quiet again.
type Wake struct {
	Events   int64 // told to all clients
	InVain   int64 // of them, to others than the one that gave back and those that were let in
	Requests int64 // of all clients, but for what the clock sends
	Involved int64 // of the one that gave back and those that were let in
	Bytes    int64
}

func (w *Wake) add(o Wake) {
	w.Events += o.Events
	w.InVain += o.InVain
	w.Requests += o.Requests
	w.Involved += o.Involved
	w.Bytes += o.Bytes
}

// member is one who holds.
type member struct {
	client int
	place  int64
	unlock func() error
}

// atOnce bounds how many give back at the same time.
const atOnce = 64

// patience bounds one gathering: who is not let in will never be.
const patience = 2 * time.Minute

// run forms the line and has them give back. It returns what all releases
// together caused; of rapid ones it is not known to whom.
func (g Gathering) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (sum Wake, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := assemble(ctx, s, t, name, g.Holders.N+g.Before.N+g.Waiters.N)
	defer func() { err = errors.Join(err, a.dismiss()) }()
	if err := a.form(ctx, g.Holders, g.Before, g.Waiters); err != nil {
		return sum, err
	}
	if err := t.Quiet(ctx, g.Settle); err != nil {
		return sum, err
	}
	before := countsOf(t)
	for range g.Releases {
		who := a.next(g.Nearest)
		if err := who.unlock(); err != nil {
			return sum, err
		}
		involved, err := a.expect(ctx, g.LetIn)
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
		sum.add(after.since(before, append(involved, who)))
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

// assembly is a gathering that takes place.
type assembly struct {
	s    stand.Stand
	t    *stand.Team
	name string

	waiting context.Context //nolint:containedctx // of those who wait, until all go home
	home    context.CancelFunc
	g       errgroup.Group
	let     chan member // those who were let in
	inside  []member    // in the order of the line
	came    int
	taken   int // contenders
}

// assemble begins an assembly of at most n.
func assemble(ctx context.Context, s stand.Stand, t *stand.Team, name string, n int) *assembly {
	a := &assembly{s: s, t: t, name: name, let: make(chan member, n)}
	a.waiting, a.home = context.WithCancel(ctx)
	return a
}

// form has crowds come, one after another. The first one holds.
func (a *assembly) form(ctx context.Context, holders Crowd, others ...Crowd) error {
	for i, c := range append([]Crowd{holders}, others...) {
		a.join(c)
		if err := joined(ctx, a.s, a.t.Line(a.name), a.came); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if _, err := a.expect(ctx, c.N); err != nil {
			return err
		}
	}
	return nil
}

// join has a crowd come.
func (a *assembly) join(c Crowd) {
	for i := range c.N {
		client := a.taken + i%c.contenders()
		a.g.Go(func() error {
			unlock, place, err := c.Lock.lock(a.waiting, a.t.Contenders[client], a.name)
			switch {
			case err == nil:
				a.let <- member{client, place, unlock}
			case a.waiting.Err() == nil:
				a.home() // nobody waits for one who will not come
				return err
			}
			return nil
		})
	}
	a.taken += c.contenders()
	a.came += c.N
}

// expect waits until n have been let in.
func (a *assembly) expect(ctx context.Context, n int) ([]member, error) {
	var ms []member
	for range n {
		select {
		case m := <-a.let:
			ms = append(ms, m)
		case <-a.waiting.Done():
			return nil, fmt.Errorf("%d of %d were let in: %w", len(ms), n, errors.Join(ctx.Err(), errNobody))
		}
	}
	a.inside = append(a.inside, ms...)
	slices.SortStableFunc(a.inside, func(x, y member) int { return cmp.Compare(x.place, y.place) })
	return ms, nil
}

var errNobody = errors.New("no more will come")

// next takes out the one who is to give back.
func (a *assembly) next(nearest bool) member {
	i := 0
	if nearest {
		i = len(a.inside) - 1
	}
	who := a.inside[i]
	a.inside = slices.Delete(a.inside, i, i+1)
	return who
}

// dismiss sends all home: who waits need not, and who holds gives back. A lock
// that does not heed contexts has its turn first.
func (a *assembly) dismiss() error {
	a.home()
	var back errgroup.Group
	back.SetLimit(atOnce)
	for _, m := range a.inside {
		back.Go(m.unlock)
	}
	var err error
	over := make(chan struct{})
	go func() { // ends when all have had their turn
		err = a.g.Wait()
		close(over)
	}()
	for {
		select {
		case m := <-a.let:
			back.Go(m.unlock)
			continue
		case <-over:
		}
		break
	}
	for len(a.let) > 0 {
		back.Go((<-a.let).unlock)
	}
	return errors.Join(err, back.Wait())
}

// clientCounts are what each client has been told and sent.
type clientCounts struct {
	events, requests []int64
	bytes            int64 // of all
}

func countsOf(t *stand.Team) clientCounts {
	c := clientCounts{bytes: t.Sent().Bytes}
	for _, tally := range t.Tallies {
		c.events, c.requests = append(c.events, tally.Events()), append(c.requests, tally.Prompted())
	}
	return c
}

// since returns what was counted after earlier, when these were involved.
func (c clientCounts) since(earlier clientCounts, involved []member) Wake {
	w := Wake{Bytes: c.bytes - earlier.bytes}
	for i := range c.events {
		events, requests := c.events[i]-earlier.events[i], c.requests[i]-earlier.requests[i]
		w.Events += events
		w.Requests += requests
		if slices.ContainsFunc(involved, func(m member) bool { return m.client == i }) {
			w.Involved += requests
		} else {
			w.InVain += events
		}
	}
	return w
}
