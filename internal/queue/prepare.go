package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// book is what is known of the ledger of a seat's line.
type book struct {
	past    driver.Past // how the hold before ended, if that was learned
	entered bool        // the join has entered the name
	open    bool        // Enter was sent and not answered: the name may be there or not
}

// prepare does at the service what is to be done before a hold can be used. again
// says that a place was lost, by no fault of the caller.
func (g *group) prepare(ctx context.Context, rs []Request) (again bool, err error) {
	ledger := slices.ContainsFunc(rs, func(r Request) bool { return r.Ledger })
	doubtful := g.doubtful()
	if !ledger && !rs[0].Slots && len(doubtful) == 0 {
		return false, nil
	}
	inner, cancel := g.t.Within(ctx)
	defer cancel()
	err = g.see(inner, doubtful)
	if err == nil && ledger {
		err = g.enter(inner)
	}
	if err == nil && rs[0].Slots {
		g.number, err = g.t.Driver().Claim(inner, g.seats[0].entry.Ref)
	}
	if err == nil {
		err = g.rest(inner, rs)
	}
	switch {
	case err == nil:
		return false, nil
	case g.t.Context().Err() != nil:
		return true, g.seats[0].rejoin(context.Cause(g.t.Context())) //nolint:contextcheck // why the term has ended
	case ctx.Err() != nil:
		return false, g.giveUp(ctx)
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrSessionOver):
		g.t.Driver().Prove()
		g.clean()
		return true, g.seats[0].rejoin(errPlaceLost)
	}
	g.clean()
	return false, err
}

// doubtful returns those of several seats that may have been lost before the last
// one was granted: all, if that was by a look, which shows one line only;
// otherwise those of whose end an event before that one would not have told.
func (g *group) doubtful() []*seat {
	if len(g.seats) == 1 || !slices.ContainsFunc(g.seats, func(st *seat) bool { return st.waited }) {
		return nil // all were granted in the transaction that made them
	}
	looked := false
	var some []*seat
	for _, st := range g.seats {
		st.ln.mu.Lock()
		looked = looked || st.seen
		if !st.ln.vouch(st) {
			some = append(some, st)
		}
		st.ln.mu.Unlock()
	}
	if looked {
		return g.seats
	}
	return some
}

// see makes sure that the entries of seats that hold are alive, by reading who is
// first in their lines. An entry that is has lived all the time, so those that
// are found alive, one by one, have held together when the first was read.
func (g *group) see(ctx context.Context, seats []*seat) error {
	for _, st := range seats {
		first, err := g.t.first(ctx, st.ln.name)
		if err != nil {
			return err
		}
		if first.Ref != st.entry.Ref {
			st.ln.do(func() { st.ln.foundGone(st) })
			return driver.ErrGone
		}
	}
	return nil
}

// enter writes into the ledgers who holds, where the join has not done so
// already, and learns how the holds before ended: badly, if one of them did.
func (g *group) enter(ctx context.Context) error {
	g.past = driver.PastClean
	for _, st := range g.seats {
		if !st.ledger {
			continue
		}
		b := &st.book
		if st.waited || !b.entered {
			b.open = true
			if err := g.reread(ctx); err != nil {
				return err
			}
		}
		st.ln.mu.Lock()
		alien := st.alien
		st.ln.mu.Unlock()
		past := b.past
		if past == driver.PastClean && alien {
			past = driver.PastUnknown // the last holder was one that enters nothing
		}
		if past == driver.PastDied || g.past == driver.PastClean {
			g.past = past
		}
	}
	return nil
}

// reread asks for what Enter has found, where that is not known. A leave without
// that knowledge would wipe out a death, or would make one up. ErrGone reports that
// an entry is gone, ErrRefused that the service does not enter a name; either comes
// when all others have been asked for.
func (g *group) reread(ctx context.Context) error {
	var last error
	for _, st := range g.seats {
		b := &st.book
		if !b.open {
			continue
		}
		past, err := g.t.Driver().Enter(ctx, st.entry.Ref)
		if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrRefused) {
			return err
		}
		if b.open = false; err != nil {
			last = err
			continue
		}
		b.past = past
	}
	return last
}

// rest lets the time pass in which holders before, who did not give back, may
// still be at work.
func (g *group) rest(ctx context.Context, rs []Request) error {
	var d time.Duration
	for i, r := range rs {
		if g.seats[i].book.past == driver.PastDied {
			d = max(d, r.Delay)
		}
	}
	if d == 0 {
		return nil
	}
	g.watch()
	timer := make(chan struct{})
	stop := g.t.in.Clock().AfterFunc(d, func() { close(timer) })
	defer stop()
	select {
	case <-timer:
		return nil
	case <-g.fell:
		return driver.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
