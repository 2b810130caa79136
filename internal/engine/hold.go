package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// grant describes the hold.
func (g *group) grant() door.Grant {
	r := g.rs[0]
	grant := door.Grant{
		Name: r.Name, Kind: r.Kind, Mode: r.Mode, Past: g.past(), Slot: g.slot,
		Token: g.entries[0].Token, Release: g.release, Request: g.hooks,
	}
	for i, en := range g.entries {
		grant.Refs = append(grant.Refs, en.Ref)
		grant.MinHold = max(grant.MinHold, g.rs[i].MinHold)
		if g.rs[i].Ledger {
			grant.Released = g.released
		}
	}
	if g.slot >= 0 { // a later entry may have got it earlier, and released it
		grant.Token = g.slotToken
	}
	if failpoint.On(failpoint.TokenByClock) {
		grant.Token = int64(g.e.clock.Now())
	}
	if len(g.rs) > 1 {
		grant.Names = names(g.rs)
		grant.Name, grant.Drop = strings.Join(grant.Names, ", "), g.abandon
		return grant
	}
	grant.Share = func(ctx context.Context) error {
		_, err := g.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkShared})
		return err
	}
	if r.Value != nil {
		grant.Write = func(ctx context.Context, value []byte) error {
			_, err := g.update(ctx, 0, driver.UpdateRequest{Data: value})
			return err
		}
	}
	return grant
}

// names returns the names of the locks of several requests.
func names(rs []Request) []string {
	all := make([]string, len(rs))
	for i, r := range rs {
		all[i] = r.Name
	}
	return all
}

// errLeaving: the entries are asked to leave, so nothing else is asked about them.
var errLeaving = errors.New("the entry is about to leave")

// update updates an entry, and takes in what the answer shows: ErrGone means that the
// entry is lost. As the contract demands, calls about an entry are made one at a time. A
// Leave does not wait for an update, but ends it.
func (g *group) update(ctx context.Context, i int, req driver.UpdateRequest) (results []driver.Result, err error) {
	e, en := g.e, g.entries[i]
	select {
	case g.calling <- struct{}{}:
		defer func() { <-g.calling }()
	case <-ctx.Done():
		return nil, driver.ContextError(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	leaving, events := en.leaving, en.q.eventCount
	g.stop = cancel
	e.mu.Unlock()
	if leaving {
		return nil, errLeaving
	}
	req.Queue, req.Entry = en.Queue, en.Ref
	results, err = e.s.Update(ctx, req)
	e.do(func() {
		switch {
		case err == nil:
			g.marked = g.marked || req.Marks.Has(driver.MarkAdmitted)
			en.q.marked(en.Ref, req.Marks, en.q.acknowledged(events))
		case errors.Is(err, driver.ErrGone) && !en.leaving && en.state != over:
			en.q.loss(en)
		}
	})
	return results, err
}

// holds is called when an entry has held for a moment. Only then its entry is watched,
// and a hold of permits is marked: for most holds that would be in vain.
func (e *engine) holds(en *entry) {
	if en.state != held || en.leaving {
		return
	}
	en.q.protect(en)
	if en.rule.Limited {
		e.acts = append(e.acts, en.g.mark)
	}
	e.lasting.add(en)
}

// mark marks the entry as one that holds permits, in the background: the one behind it
// waits for that.
func (g *group) mark() {
	if failpoint.On(failpoint.NoAdmittedMark) {
		return
	}
	g.e.t.Clean(func(ctx context.Context) error {
		g.e.mu.Lock()
		idle := g.marked || g.entries[0].leaving || g.entries[0].state != held
		g.e.mu.Unlock()
		if idle {
			return nil
		}
		_, err := g.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkAdmitted})
		switch {
		case errors.Is(err, driver.ErrGone):
			return nil
		case driver.Incurable(err): // those behind wait longer than they must, until they read
			g.e.t.in.Logger().Warn("fairlock: cannot record that permits were acquired", "name", g.rs[0].Name, "err", err)
			return nil
		}
		return err
	})
}

// lasts is called when an entry has held for a second. Then the time of the grant is
// stored with it, for people and tools. That is optional: one goroutine does it for all
// entries, a failure is tried again a second later, and a release does not wait for it.
func (e *engine) lasts(en *entry) {
	if en.state != held || en.leaving {
		return
	}
	if e.details = append(e.details, en); !e.storing {
		e.storing = true
		e.t.Go(e.store)
	}
}

// detailTimeout bounds the storing of one detail.
const detailTimeout = 5 * time.Second

// store stores details until there are none, or until the term ends.
func (e *engine) store(ctx context.Context) {
	for {
		var en *entry
		e.do(func() {
			if e.storing = len(e.details) > 0 && ctx.Err() == nil; e.storing {
				en, e.details[0] = e.details[0], nil
				e.details = e.details[1:]
			}
		})
		if en == nil {
			return
		}
		var meta door.Meta // the other fields are in the data
		if en.g.meta != nil {
			meta = *en.g.meta
		}
		meta.Granted = en.g.granted
		short, cancel := driver.WithTimeout(ctx, e.clock, detailTimeout)
		_, err := en.g.update(short, en.n, driver.UpdateRequest{Detail: meta.Encode()})
		cancel()
		if err != nil && !driver.Incurable(err) {
			e.do(func() { e.lasting.add(en) }) // in vain, if it has left by then
		}
	}
}

// release leaves when the hold has done its work.
func (g *group) release(ctx context.Context) error { return g.leave(ctx, clearAny) }

// clean drops the entries in the background.
func (g *group) clean() { g.later(g.drop) }

// drop leaves for a request whose caller has held nothing. The ledgers keep what they
// recorded before.
func (g *group) drop(ctx context.Context) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	return settled(g.leave(ctx, clearOwn))
}

// abandon deletes the remains of a hold that was lost. The holder's work may be half
// done, so the ledgers keep its name.
func (g *group) abandon(ctx context.Context) error { return settled(g.leave(ctx, clearNone)) }

// unclean reports whether one entry of the hold was lost before its Unlock, as the first call
// finds: that counts as a death in all the ledgers. Later another client may delete what MinHold
// keeps, and that does not count. The engine's mutex must be held.
func (g *group) unclean() bool {
	if !g.unlocked {
		g.unlocked, g.died = true, g.isLost
	}
	return g.died
}

// settled ignores that an entry was already gone.
func settled(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// leave deletes all entries, with their records. It is idempotent. ErrGone means that one
// was gone before.
func (g *group) leave(ctx context.Context, how clearing) error {
	e := g.e
	e.mu.Lock()
	for _, en := range g.entries {
		if en.leaving = true; en.guard != nil {
			en.guard.stop() // the end of the entry is expected then
		}
	}
	if g.stop != nil {
		g.stop()
	}
	e.mu.Unlock()
	select {
	case g.calling <- struct{}{}:
		defer func() { <-g.calling }()
	case <-ctx.Done():
		return driver.ContextError(ctx)
	}
	reqs, events := make([]driver.LeaveRequest, len(g.entries)), make([]uint64, len(g.entries))
	e.mu.Lock()
	left, why := g.left, g.why
	if how == clearAny && g.unclean() {
		how = clearNone // see abandon
	}
	for i, en := range g.entries {
		reqs[i] = driver.LeaveRequest{Ref: en.Ref, First: en.showsFirst(), Ops: g.undo(i, how)}
		events[i] = en.q.eventCount
	}
	e.mu.Unlock()
	if left {
		return why
	}
	answers, err := e.s.Leave(ctx, reqs...)
	e.do(func() {
		if err != nil {
			g.tried = true
			return
		}
		g.left = true
		for i, en := range g.entries {
			if answers[i] == driver.WasGone && !g.tried || en.lost {
				g.why = driver.ErrGone
			}
			en.q.left(en, answers[i], events[i])
			e.tidy(en.q)
		}
		err = g.why
	})
	return err
}

// showsFirst reports whether the Leave is to show others that the entry was first. One that joined
// behind three or more needs that (see wait), and then the one ahead of it joined behind two. A
// reader can wait for a writer over other readers. Permits are granted by views only.
func (en *entry) showsFirst() bool {
	needed := en.waited > 1 || en.waited == 1 && en.g.rs[en.n].Family == driver.FamilyReadWrite
	return en.wasFirst() && needed && !en.rule.Limited && !en.precedesOwn()
}

// precedesOwn reports whether the entry right behind is known to be ours. Then no other waits
// for this one, and ours learns from the answer to Leave that it was first.
func (en *entry) precedesOwn() bool {
	p := &en.q.pic
	i := p.index(en.Ref) + 1
	if i == 0 || i == len(p.es) || p.gaps[i] {
		return false
	}
	next := en.q.own.get(p.es[i].Ref)
	return next != nil && next.Mode == driver.Exclusive && !next.leaving
}

// wasFirst reports whether at some time no entry was ahead. One that only waited can have
// been first too.
func (en *entry) wasFirst() bool {
	if i := en.q.pic.index(en.Ref); i >= 0 {
		es, complete := en.q.pic.ahead(i)
		en.first = en.first || complete && len(es) == 0 && en.q.replaced == 0
	}
	if failpoint.On(failpoint.WaiterReportedFirst) {
		return true
	}
	return en.first
}
