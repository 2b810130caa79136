package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// group is what one request has: a seat in one line, or one in each of several,
// made in one transaction.
type group struct {
	t      term
	seats  []*seat
	fell   chan struct{} // closed when a seat was lost or refused; nil if done tells
	hooks  door.Request
	turn   int           // see door.Request
	past   driver.Past   // how the holds before ended, all in all
	number driver.Number // of the hold; N is -1 if it was not asked for
}

// newGroup gives new entries their seats.
func newGroup(t term, lines []entrance, rs []Request, joined []driver.Joined, hooks door.Request) *group {
	g := &group{t: t, seats: make([]*seat, len(rs)), hooks: hooks, number: driver.Number{N: -1}}
	var fall func()
	if len(rs) > 1 || rs[0].Delay > 0 { // a seat that holds may have to wait for something else
		g.fell = make(chan struct{})
		fall = sync.OnceFunc(func() { close(g.fell) })
	}
	further := make([]int, len(joined)-1)
	for i := range further {
		further[i] = joined[i+1].Ahead
	}
	g.turn = hooks.Joined(t.Term, joined[0].Entry.Token, joined[0].Ahead, further...)
	for i, r := range rs {
		g.seats[i] = lines[i].add(joined[i], r, fall, place{hooks, g.turn, i})
	}
	return g
}

// wait waits until all seats hold. Without error they do. again says that a
// place was lost, by no fault of the caller.
func (g *group) wait(ctx context.Context) (again bool, err error) {
	for _, st := range g.seats {
		select {
		case <-st.done: // as good as ever when nobody is ahead
		default:
			g.watch()
			select {
			case <-st.done:
			case <-g.fell:
			case <-ctx.Done():
				return false, g.giveUp(ctx)
			case <-g.t.Context().Done():
				return true, st.rejoin(context.Cause(g.t.Context())) //nolint:contextcheck // why the term has ended
			}
		}
		if again, err := g.refused(); err != nil {
			return again, err
		}
	}
	return false, nil
}

// refused says why a seat got no hold, or has it no longer, and then leaves the
// lines. Nil if none has been refused.
func (g *group) refused() (again bool, err error) {
	for _, st := range g.seats {
		st.ln.mu.Lock()
		err := st.err
		if err == nil && st.lost {
			err = errPlaceLost
		}
		st.ln.mu.Unlock()
		if err == nil {
			continue
		}
		switch {
		case errors.Is(err, errPlaceLost):
			again, err = true, st.rejoin(err)
		case errors.Is(err, errMustWait):
			err = st.taken()
		}
		if !again || len(g.seats) > 1 {
			g.clean()
		}
		return again, err
	}
	return false, nil
}

// watch has the entries of those watched that hold already: they are to hold for
// longer than it takes to be told.
func (g *group) watch() {
	if g.fell == nil {
		return
	}
	for _, st := range g.seats {
		st.ln.do(func() {
			if st.state == held && !st.leaving {
				st.ln.watchOwn(st, st.born)
			}
		})
	}
}

// clean leaves the lines in the background.
func (g *group) clean() { g.t.Clean(g.drop) }

// drop leaves the lines of a request whose caller has held nothing. The ledgers
// go on to say what they said before.
func (g *group) drop(ctx context.Context) error {
	// A name that the service refused is not in the ledger.
	if err := settled(g.reread(ctx)); err != nil && !errors.Is(err, driver.ErrRefused) {
		return err
	}
	clean := func(i int) bool { return g.seats[i].book.past != driver.PastDied }
	if failpoint.On(failpoint.StruckByWaiter) {
		clean = func(int) bool { return true }
	}
	return settled(g.leave(ctx, clean))
}

// abandon leaves the lines of a hold that was lost in one of them. What its
// caller did may be half done, so all ledgers keep its name.
func (g *group) abandon(ctx context.Context) error {
	return settled(g.leave(ctx, func(int) bool { return false }))
}

// settled takes what is gone for left.
func settled(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// release gives back a hold that has done its work.
func (g *group) release(ctx context.Context) error {
	return g.leave(ctx, func(int) bool { return true })
}

// leave deletes all entries. clean says of which the ledger is to forget them. It
// is idempotent. Of several, ErrGone means that one was gone before.
func (g *group) leave(ctx context.Context, clean func(i int) bool) error {
	if len(g.seats) == 1 {
		return g.seats[0].leave(ctx, g.seats[0].ledger && clean(0))
	}
	var present []*seat
	var reqs []driver.LeaveRequest
	lost := false
	for i, st := range g.seats {
		if err := st.change(ctx); err != nil {
			return err
		}
		defer st.changed()
		_, req, err := st.depart()
		if err != nil {
			lost = true
			continue
		}
		req.Clean = st.ledger && clean(i)
		req.Probe = driver.Ref{} // nobody here would use the answer
		present, reqs = append(present, st), append(reqs, req)
	}
	if len(reqs) == 0 {
		return driver.ErrGone
	}
	left, err := g.t.Driver().LeaveAll(ctx, reqs)
	if err != nil {
		return err
	}
	for i, st := range present {
		lost = lost || left[i].Gone
		st.gone(nil, left[i])
	}
	if lost {
		return driver.ErrGone
	}
	return nil
}

// take makes the hold of seats that were granted. If ctx has ended meanwhile,
// the locks are given back.
func (g *group) take(ctx context.Context, rs []Request) (h *session.Hold, again bool, err error) {
	if ctx.Err() != nil {
		return nil, false, g.giveUp(ctx)
	}
	if again, err := g.prepare(ctx, rs); err != nil {
		return nil, again, err
	}
	if again, err := g.refused(); err != nil { // it went before anybody could use it
		return nil, again, err
	}
	h, err = Core().Grant(ctx, g.t.Term, g.grant(rs))
	if err != nil {
		return nil, true, g.seats[0].rejoin(err)
	}
	granted := g.t.in.Clock().Wall()
	for _, st := range g.seats {
		st.ln.mu.Lock()
		st.hold, st.granted = h, granted
		lost := st.lost
		st.ln.mu.Unlock()
		if lost {
			Core().Inner(h).EntryGone(nil)
		}
		st.ln.e.guardLater(st)
	}
	return h, false, nil
}

// grant describes the hold.
func (g *group) grant(rs []Request) door.Grant {
	r := rs[0]
	grant := door.Grant{
		Name: r.Name, Kind: r.Kind, Mode: r.Mode, Past: g.past, Slot: g.number.N,
		Token: g.seats[0].entry.Token, Release: g.release,
		Refs: make([]driver.Ref, len(rs)), Request: g.hooks,
	}
	for _, r := range rs {
		grant.MinHold = max(grant.MinHold, r.MinHold)
	}
	if g.number.N >= 0 {
		// The entries' tokens do not rise for what has the number: see driver.Number.
		grant.Token = g.number.Token
	}
	if failpoint.On(failpoint.TokenByClock) {
		grant.Token = int64(g.t.in.Clock().Now())
	}
	for i, st := range g.seats {
		grant.Refs[i] = st.entry.Ref
	}
	if len(rs) > 1 {
		grant.Names = names(rs)
		grant.Name, grant.Drop = strings.Join(grant.Names, ", "), g.abandon
		return grant
	}
	st := g.seats[0]
	grant.Share = st.share
	if r.Value != nil {
		grant.Write = func(ctx context.Context, value []byte) error {
			return g.t.Driver().Write(ctx, grant.Refs[0], value)
		}
	}
	return grant
}

// describeTimeout is how long a caller whose ctx has ended is kept for the sake
// of a better error and of an entry that is gone when it returns.
const describeTimeout = 25 * time.Millisecond

// giveUp leaves the lines for a caller whose ctx has ended, and says who was in
// the way. The delete goes on in the background if it takes longer.
func (g *group) giveUp(ctx context.Context) error {
	t := g.t
	e := &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
	st := g.seats[0]
	for _, o := range g.seats {
		o.ln.mu.Lock()
		if o.state == waiting {
			e.Ahead, st = o.count, o
			o.hooks.waitsFor(o.blocker)
		}
		o.ln.mu.Unlock()
		if e.Ahead >= 0 {
			break
		}
	}
	gone := make(chan struct{})
	t.Clean(func(ctx context.Context) error {
		if failpoint.On(failpoint.NoLeaveOnCancel) {
			return nil
		}
		if err := g.drop(ctx); err != nil {
			return err
		}
		close(gone)
		return nil
	})
	short, cancel := driver.WithTimeout(t.Context(), t.in.Clock(), describeTimeout)
	defer cancel()
	//nolint:contextcheck // ctx has ended, that is why we are here
	if first := st.ln.first.get(short, st.ln); first.Ref != st.entry.Ref {
		e.Holder, e.Now = shown(first), t.in.Clock().Wall()
	}
	select {
	case <-gone:
	case <-short.Done():
	}
	return e
}
