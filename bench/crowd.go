package main

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

// lockFunc is one way of locking. Places rise along the line; a peer tells none.
type lockFunc func(ctx context.Context, c stand.Contender, name string) (unlock func() error, place int64, err error)

// A crowd is so many who do the same at the same time.
type crowd struct {
	n    int
	in   int // over so many contenders; 0 is one for each
	lock lockFunc
}

// contenders is over how many contenders a crowd spreads.
func (c crowd) contenders() int {
	if c.in == 0 {
		return c.n
	}
	return min(c.n, c.in)
}

// A gathering is a line of several crowds, who come one after another. What is
// counted is what clients send and are told when one gives back.
type gathering struct {
	holders  crowd // hold together
	before   crowd // wait, before
	waiters  crowd
	releases int
	letIn    int  // how many each release lets in
	nearest  bool // who stands nearest to the waiters gives back first; else it is who came first
	rapid    bool // a release follows upon the other, and only the sum is known
}

// contenders is how many a gathering needs.
func (g gathering) contenders() int {
	return g.holders.contenders() + g.before.contenders() + g.waiters.contenders()
}

// wake is what releases have caused, until all was quiet again.
type wake struct {
	events   int64 // told to all clients
	inVain   int64 // of them, to others than the one that gave back and those that were let in
	requests int64 // of all clients, but for what the clock sends
	involved int64 // of the one that gave back and those that were let in
	bytes    int64
}

func (w *wake) add(o wake) {
	w.events += o.events
	w.inVain += o.inVain
	w.requests += o.requests
	w.involved += o.involved
	w.bytes += o.bytes
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
func (g gathering) run(ctx context.Context, s stand.Stand, t *stand.Team, name string, settle time.Duration) (sum wake, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := &assembly{t: t, name: name, length: func(ctx context.Context, n int) error {
		return joined(ctx, s, t.Line(name), n)
	}, let: make(chan member, g.holders.n+g.before.n+g.waiters.n)}
	defer func() { err = errors.Join(err, a.dismiss()) }()
	a.begin(ctx)
	if err := a.form(ctx, g); err != nil {
		return sum, err
	}
	if err := t.Quiet(ctx, settle); err != nil {
		return sum, err
	}
	before := countsOf(t)
	for range g.releases {
		who := a.next(g.nearest)
		if err := who.unlock(); err != nil {
			return sum, err
		}
		involved, err := a.expect(ctx, g.letIn)
		if err != nil {
			return sum, err
		}
		if g.rapid {
			continue
		}
		if err := t.Quiet(ctx, settle); err != nil {
			return sum, err
		}
		after := countsOf(t)
		sum.add(after.since(before, append(involved, who)))
		before = after
	}
	if g.rapid {
		if err := t.Quiet(ctx, settle); err != nil {
			return sum, err
		}
		sum.add(countsOf(t).since(before, nil))
	}
	return sum, nil
}

// assembly is a gathering that takes place.
type assembly struct {
	t      *stand.Team
	name   string
	length func(ctx context.Context, n int) error // waits until n have joined

	waiting context.Context //nolint:containedctx // of those who wait, until all go home
	home    context.CancelFunc
	g       *errgroup.Group
	let     chan member // those who were let in
	inside  []member    // in the order of the line
	came    int
	taken   int // contenders
}

func (a *assembly) begin(ctx context.Context) {
	a.waiting, a.home = context.WithCancel(ctx)
	a.g = new(errgroup.Group)
}

// form has the crowds come, one after another.
func (a *assembly) form(ctx context.Context, g gathering) error {
	for i, c := range []crowd{g.holders, g.before, g.waiters} {
		a.join(c)
		if err := a.length(ctx, a.came); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if _, err := a.expect(ctx, c.n); err != nil {
			return err
		}
	}
	return nil
}

// join has a crowd come.
func (a *assembly) join(c crowd) {
	for i := range c.n {
		client := a.taken + i%c.contenders()
		a.g.Go(func() error {
			unlock, place, err := c.lock(a.waiting, a.t.Contenders[client], a.name)
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
	a.came += c.n
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
func (c clientCounts) since(earlier clientCounts, involved []member) wake {
	w := wake{bytes: c.bytes - earlier.bytes}
	for i := range c.events {
		events, requests := c.events[i]-earlier.events[i], c.requests[i]-earlier.requests[i]
		w.events += events
		w.requests += requests
		if slices.ContainsFunc(involved, func(m member) bool { return m.client == i }) {
			w.involved += requests
		} else {
			w.inVain += events
		}
	}
	return w
}
