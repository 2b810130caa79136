package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// group is what one request has: an entry in one queue, or one in each of several, made
// in one transaction.
type group struct {
	e       *engine
	rs      []Request
	queues  []*queue
	doubts  uint64 // before the join was sent
	entries []*entry
	hooks   door.Request
	hooked  bool // they want to know what it waits for
	turn    int  // see door.Request
	records
	meta    *door.Meta    // of an entry with a value
	calling chan struct{} // full while a call about the entries is under way
	owes    bool          // Close waits for it, see owe

	// The engine's mutex guards what follows.
	missing  int           // entries that do not hold yet
	waits    bool          // some did not when the joins were answered
	whole    bool          // all hold, at one moment
	refusal  error         // why one of them never will
	done     chan struct{} // closed when it is whole, or one was refused
	lost     chan struct{} // closed when one is lost
	isLost   bool          // lost is closed
	stop     func()        // ends a call that a Leave does not wait for
	hold     *session.Hold // once the caller has it
	granted  time.Time     // by our wall clock
	marked   bool          // the service knows that it holds permits
	unlocked bool          // unclean has been called
	died     bool          // what it returns
	tried    bool          // a Leave was sent whose outcome is not known
	left     bool          // the entries are gone
	why      error         // what leave returns then
}

// errPlaceLost: the entry of a waiter is gone, and the waiter did not leave.
var errPlaceLost = errors.New("the entry of the waiter is gone at the service")

// newGroup opens the queues of a request.
func newGroup(e *engine, rs []Request, hooks door.Request) *group {
	g := &group{
		e: e, rs: rs, hooks: hooks, hooked: e.t.in.Hooked(), missing: len(rs),
		done: make(chan struct{}), lost: make(chan struct{}), calling: make(chan struct{}, 1),
	}
	g.records = records{g: g, slot: -1, ledgers: make([]ledger, len(rs))}
	e.mu.Lock()
	defer e.mu.Unlock()
	g.doubts = e.doubted.n
	for _, r := range rs {
		q := e.open(r.Name)
		q.joins++
		g.queues = append(g.queues, q)
	}
	return g
}

// owe has Close wait for a request that may enter its name in a ledger, which outlives the
// service session: until the request has a hold, or the name is gone. If the term is over, owe
// returns the cause.
func (g *group) owe() (err error) {
	if slices.ContainsFunc(g.rs, func(r Request) bool { return r.Ledger }) {
		err = g.e.t.Owe()
		g.owes = err == nil
	}
	return err
}

// later has f remove in the background what the request has left. No context of a caller
// bounds that.
func (g *group) later(f func(context.Context) error) {
	if !g.owes {
		g.e.t.Clean(f)
		return
	}
	g.owes = false
	g.e.t.ReleaseLater(0, f)
}

// close is the end of a request, with a hold or without.
func (g *group) close() {
	if g.owes { // there is a hold, which owes too, or nothing was left
		g.e.t.Released()
	}
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	for _, q := range g.queues {
		if q.users--; g.entries == nil { // no join was answered; else queue.joined has counted it
			q.joins--
		}
		g.e.tidy(q)
	}
}

// joined takes in the entries.
func (g *group) joined(joined []driver.Joined) {
	var ahead []int
	for i, j := range joined {
		ahead = append(ahead, j.View.Count)
		g.entries = append(g.entries, &entry{g: g, n: i, rule: g.rs[i].Rule, try: g.rs[i].Try})
		g.learnLedger(i, j)
	}
	// Before the queues take the entries in, because they report positions with this turn.
	g.turn = g.hooks.Joined(g.e.t.Term, joined[0].Entry.Token, ahead[0], ahead[1:]...)
	g.e.do(func() {
		for i, en := range g.entries {
			g.queues[i].joined(en, joined[i], g.doubts)
		}
		if g.waits = g.missing > 0; g.waits {
			g.protect()
		}
	})
}

// protect has those entries watched that hold while something else is waited for. The
// caller holds the mutex.
func (g *group) protect() {
	for _, en := range g.entries {
		if en.state == held && !en.leaving {
			en.q.protect(en)
		}
	}
}

// holds takes in that an entry holds. If others are still waited for, it is watched.
func (g *group) holds(en *entry) {
	g.waitsFor(en)
	if g.missing--; !g.complete(en) && g.waits {
		en.q.protect(en)
	}
}

// complete lets the request have its hold when all entries hold, and reports whether it
// has. The caller has just proved that entry now is alive. The others were proved alive
// earlier, so each needs an armed watch, which has reported no end.
func (g *group) complete(now *entry) bool {
	if g.missing > 0 || g.whole {
		return g.whole
	}
	for _, en := range g.entries {
		if g.waits && en != now && (en.guard == nil || !en.guard.armed) {
			return false
		}
	}
	g.whole = true
	close(g.done)
	return true
}

// refuse takes in that an entry will never hold.
func (g *group) refuse(err error) {
	if g.refusal == nil {
		g.refusal = err
		close(g.done)
	}
}

// lose takes in that an entry is lost.
func (g *group) lose() {
	if !g.isLost {
		g.isLost = true
		close(g.lost)
	}
}

// waitsFor reports what an entry waited for last.
func (g *group) waitsFor(en *entry) {
	if b := en.blocker; b != nil && g.hooked {
		g.hooks.WaitsFor(g.turn, new(*b)) // a copy: the picture's can get marks
	}
}

// wait waits until all entries hold. Without error they do. again reports that a place
// was lost, for no reason that the caller gave.
func (g *group) wait(ctx context.Context) (again bool, err error) {
	select {
	case <-g.done: // almost always, when no entry is ahead
		return g.failed(ctx)
	default:
	}
	t := g.e.t
	g.withdraw(ctx)
	select {
	case <-g.done:
	case <-g.lost:
	case <-ctx.Done():
		return false, g.giveUp(ctx)
	case <-t.Context().Done():
		return true, g.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
	}
	return g.failed(ctx)
}

// failed returns why an entry got no hold, or has lost it, and then leaves the queues:
// also for an entry that is gone, because leaving deletes its records.
func (g *group) failed(ctx context.Context) (again bool, err error) {
	g.e.mu.Lock()
	lost, err := g.isLost, g.refusal
	g.e.mu.Unlock()
	switch {
	case lost:
		again, err = true, g.rejoin(errPlaceLost)
	case errors.Is(err, errLimitGone):
		again, err = true, g.rejoin(err)
	case err == nil:
		return false, nil
	}
	if !errors.Is(err, errMustWait) {
		g.clean()
		return again, err
	}
	en, ahead := g.waiter()
	g.clean() // before the read for the error: other requests wait for that
	return false, g.behind(&session.NotAcquiredError{Ahead: max(ahead, 0)}, g.e.firstEntry(ctx, en.q))
}

// rejoin reports that the place was lost and why. If the reason is Close, the entries leave at
// once: the service session may live for the margin, while another hold is unlocked.
func (g *group) rejoin(why error) error {
	if errors.Is(why, session.ReasonClosed) {
		g.clean()
		return why // there will be no queue to join
	}
	g.e.t.in.Logger().Warn("fairlock: place in the queue lost, joining again",
		"name", g.rs[0].Name, "token", g.entries[0].Token, "err", why)
	g.hooks.Rejoined(why)
	return why
}

// take makes the hold of entries that were granted. If ctx has ended meanwhile, it
// releases them.
func (g *group) take(ctx context.Context, c *call) (h *session.Hold, again bool, err error) {
	defer func() {
		if again && c.delays != nil {
			c.delays(0)
		}
	}()
	if ctx.Err() != nil {
		return nil, false, g.giveUp(ctx)
	}
	if again, err := g.prepare(ctx, c.delays); err != nil {
		return nil, again, err
	}
	if again, err := g.failed(ctx); err != nil { // it was lost before the caller could use it
		return nil, again, err
	}
	g.granted = g.e.clock.Wall()
	h, err = Core().Grant(c.caller, g.e.t.s, g.e.t.Term, g.grant()) //nolint:contextcheck // ctx may be that of a try
	if err != nil {
		return nil, true, g.rejoin(err)
	}
	g.e.do(func() {
		if g.hold = h; g.isLost { // since the call of failed: engine.lost found no hold to end
			g.e.endHold(g)
		}
		for _, en := range g.entries {
			g.e.held.add(en)
			if en.rule.Limited && en.waited > 0 {
				// At once: where it had to wait, others may wait behind it, for the mark. Elsewhere
				// engine.holds does it.
				g.e.acts = append(g.e.acts, g.mark)
			}
		}
	})
	return h, false, nil
}

// prepare does at the service what is to be done before a hold can be used. again reports
// that a place was lost, for no reason that the caller gave.
func (g *group) prepare(ctx context.Context, delays func(time.Duration)) (again bool, err error) {
	if !g.rs[0].Slots && !slices.ContainsFunc(g.ledgers, func(l ledger) bool { return l.kept }) {
		return false, nil
	}
	t := g.e.t
	inner, cancel := t.Within(ctx)
	defer cancel()
	// After an outcome that is not known, write once more: if the entry is gone, that shows it.
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err = g.write(inner)
		if !errors.Is(err, driver.ErrUnavailable) || !driver.Sleep(inner, g.e.clock, backoff) {
			break
		}
	}
	if err == nil {
		err = g.waitDelay(inner, delays)
	}
	switch {
	case err == nil:
		return false, nil
	case t.Context().Err() != nil:
		return true, g.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
	case ctx.Err() != nil:
		return false, g.giveUp(ctx)
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrSessionOver):
		t.Renew()
		again, err = true, g.rejoin(errPlaceLost)
	}
	g.clean()
	return again, err
}

// describeTimeout is how long a caller whose ctx has ended is kept for the sake of a
// better error, and of an entry that is gone when it returns.
const describeTimeout = 25 * time.Millisecond

// giveUp leaves the queues for a caller whose ctx has ended, and returns what was in the
// way. The deletion goes on in the background if it takes longer.
func (g *group) giveUp(ctx context.Context) error {
	t := g.e.t
	e := gaveUp(ctx)
	en, ahead := g.waiter()
	e.Ahead = ahead
	gone := make(chan struct{})
	g.later(func(ctx context.Context) error {
		if failpoint.On(failpoint.NoLeaveOnCancel) {
			return nil
		}
		if err := g.drop(ctx); err != nil {
			return err
		}
		close(gone)
		return nil
	})
	short, cancel := driver.WithTimeout(t.Context(), g.e.clock, describeTimeout)
	defer cancel()
	//nolint:contextcheck // ctx has ended, that is why this was called
	if first := g.e.firstEntry(short, en.q); first.Ref != en.Ref { // its own may be the first by now
		e = g.behind(e, first)
	}
	select {
	case <-gone:
	case <-short.Done():
	}
	return e
}

// gaveUp is the error of a request whose ctx has ended, with its cause if it has one of
// its own.
func gaveUp(ctx context.Context) *session.NotAcquiredError {
	err := ctx.Err()
	if c := context.Cause(ctx); !errors.Is(c, err) {
		err = fmt.Errorf("%w: %w", err, c)
	}
	return &session.NotAcquiredError{Ahead: -1, Err: err}
}

// taken is the error of a try that found others in a queue.
func (g *group) taken(ctx context.Context, taken *driver.TakenError) error {
	e := &session.NotAcquiredError{Ahead: taken.Count}
	first := taken.First
	for _, q := range g.queues {
		if q.name == taken.Queue && first.Data == nil { // the answer did not show its owner
			first = g.e.firstEntry(ctx, q)
		}
	}
	return g.behind(e, first)
}

// waiter returns the first of the entries that waits, and how many are ahead of it; the
// first of all and -1 if none waits. It reports what that one waits for.
func (g *group) waiter() (en *entry, ahead int) {
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	for _, en := range g.entries {
		if en.state == waiting {
			g.waitsFor(en)
			return en, en.count
		}
	}
	return g.entries[0], -1
}

// behind adds the first entry of the queue to an error.
func (g *group) behind(e *session.NotAcquiredError, first driver.Entry) *session.NotAcquiredError {
	e.Holder, e.Now = shown(first), g.e.clock.Wall()
	return e
}
