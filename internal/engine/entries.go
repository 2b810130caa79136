package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// entries are what one attempt of a request has at the service: an entry in one queue, or one in
// each of several, made in one transaction. They live from the join until they are gone, and a
// Hold keeps them meanwhile:
//
//	newEntries > join > joined > wait > take > the Hold > release
//	              |               |       |       |
//	              v               v       v       v
//	          notJoined      giveUp, clean: drop  abandon
//
// Each of the lower line leaves the removal to the term, which repeats it until it is certain, or
// until the service session is over and the entries end with it.
type entries struct {
	qs     *queues
	rs     []Request
	queues []*openQueue // by request
	group  *queue.Group // what package queue keeps of them
	hooks  Hooks        // nil: there are none

	// doubts is queue.Term.Doubts before the join was sent, and turn what Hooks.Joined returned.
	doubts uint64
	turn   int

	// records are those of the request in its queues, if it has any: recorded. It never changes.
	records  records
	recorded bool

	// meta describes the owner of an entry with a value; nil if there is none.
	meta *owner.Meta

	// calling is full while a call about the entries is under way: the contract allows one.
	calling chan struct{}

	// owes: Close waits for the request, see owe. Only the goroutine of the call uses it.
	owes bool

	// done is closed when all entries hold, or when one was refused; lost when one is lost.
	done, lost chan struct{}

	// The mutex of qs guards what follows.

	// stopTimer stops what happens next because time passes: see Waits and holding.
	stopTimer func() bool

	// stopCall ends an update that is under way, for a Leave, which does not wait for it.
	stopCall func()

	// hold is that of the caller, from the moment at which the caller has it; before that nil.
	hold    *Hold
	granted time.Time // by our wall clock; zero before the grant

	// marked: the service knows that the entry holds permits.
	marked bool

	// tied: what depends on the entries may be done at the service after the release was sent: a
	// transaction with a guard, or the record of finished work. Then no own entry holds before the
	// service has acknowledged the release. See Hold.Tie.
	tied bool

	// released: the caller has released the hold, or has tried to. died is whether an entry had
	// been lost by then: that counts as a death in all the ledgers.
	released, died bool

	// tried: a Leave was sent whose outcome is not known. left: the entries are gone, and gone is
	// what leave returns since then.
	tried, left bool
	gone        error
}

// newEntries opens the queues of a request.
func newEntries(qs *queues, rs []Request, hooks Hooks) *entries {
	es := &entries{
		qs: qs, rs: rs, hooks: hooks, done: make(chan struct{}), lost: make(chan struct{}), calling: make(chan struct{}, 1),
	}
	es.group = queue.NewGroup(len(rs), es)
	es.recorded = rs[0].Slots || slices.ContainsFunc(rs, hasLedger)
	if es.recorded {
		es.records = records{es: es, slot: -1, ledgers: make([]ledger, len(rs))}
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	es.doubts = qs.term.Doubts()
	for _, r := range rs {
		q := qs.open(r.Name)
		q.Joins()
		es.queues = append(es.queues, q)
	}
	return es
}

// owe has Close wait for a request that may enter its name in a ledger, which outlives the
// service session: until the request has a hold, or the name is gone. If the term is over, owe
// returns the cause.
func (es *entries) owe() error {
	if !slices.ContainsFunc(es.rs, hasLedger) {
		return nil
	}
	if err := es.qs.t.Owe(); err != nil {
		return err //nolint:wrapcheck // the public error of the loss
	}
	es.owes = true
	return nil
}

func hasLedger(r Request) bool { return r.Ledger }

// later has f remove in the background what the request has left. No context of a caller
// bounds that.
func (es *entries) later(f func(context.Context) error) {
	es.stopWaiting()
	if !es.owes {
		es.qs.t.Clean(f)
		return
	}
	es.owes = false
	es.qs.t.ReleaseLater(0, f)
}

// stopWaiting stops the timer of a request that ends without a hold.
func (es *entries) stopWaiting() {
	es.qs.mu.Lock()
	defer es.qs.mu.Unlock()
	es.noTimer()
}

// noTimer stops the timer, if there is one. The mutex is held.
func (es *entries) noTimer() {
	if es.stopTimer != nil {
		es.stopTimer()
	}
}

// closed is the end of a request, with a hold or without: it uses its queues no longer. What it has in
// them keeps them open.
func (es *entries) closed() {
	if es.owes { // there is a hold, which owes too, or nothing was left
		es.qs.t.Released()
	}
	es.qs.mu.Lock()
	defer es.qs.mu.Unlock()
	for _, q := range es.queues {
		if es.group.Entries == nil { // no join was answered; else Group.Joined has counted it
			q.NotJoined()
		}
		q.closed()
	}
}

// joined takes in the entries. They may hold when it returns: the answer to the join is the first
// fact about them. doubts was read before the join was sent: a doubt that came up meanwhile may be
// younger than what the answer shows.
func (es *entries) joined(joined []driver.Joined) {
	specs, ahead := make([]queue.Spec, len(es.rs)), make([]int, len(es.rs))
	qs := make([]*queue.Queue, len(es.rs))
	for i, r := range es.rs {
		readers := r.Family == driver.FamilyReadWrite
		changes := es.recorded || r.Value != nil || readers && r.Mode == driver.Exclusive // which can downgrade
		specs[i] = queue.Spec{Rule: r.Rule, Readers: readers, Changes: changes, Try: r.Try}
		qs[i], ahead[i] = es.queues[i].Queue, joined[i].View.Count
		if es.recorded {
			es.records.learnLedger(i, joined[i])
		}
	}
	if es.hooks != nil { // before Moved is called, which reports positions with this turn
		es.turn = es.hooks.Joined(es.qs.t.ID(), joined[0].Entry.Token, ahead[0], ahead[1:]...)
	}
	es.qs.do(func() { es.group.Joined(qs, specs, joined, es.doubts) })
}

// An entry that waits for long is watched, so that in the end every waiter learns that its entry
// is gone. One that holds for a moment is watched too, and marked if it is of permits; and if it
// lasts, the time of the grant is stored. Most entries wait or hold for a shorter time, and cost
// nothing more.
const (
	long    = 250 * time.Millisecond
	moment  = 50 * time.Millisecond
	lasting = time.Second - moment // after moment
)

// Waits implements queue.Owner.
func (es *entries) Waits(n int) {
	es.queues[n].reread()
	if es.stopTimer == nil {
		es.stopTimer = es.qs.after(long, func() {
			for _, en := range es.group.Entries {
				en.WaitsLong()
			}
		})
	}
}

// Done implements queue.Owner. It is called under the mutex, and only wakes the caller: what follows a
// grant or a refusal sends requests, so the caller's own goroutine does it (failed, take).
func (es *entries) Done() { close(es.done) }

// Lost implements queue.Owner. Who ends what is lost depends on how far the call has come:
//
//	the caller waits                        wait finds lost closed
//	it writes records, or makes its hold    failed asks the group, and holding once more
//	it has its hold                         this call ends the hold
func (es *entries) Lost() {
	close(es.lost)
	if es.hold != nil { // else wait or take finds it lost
		es.endHold()
	}
}

// Moved implements queue.Owner.
func (es *entries) Moved(n, ahead int) {
	if es.hooks != nil {
		es.hooks.Moved(es.turn, n, ahead)
	}
}

// endHold ends a hold that is lost: first of all its context. Then the entry leaves all
// the same, because its records go with that; but where others are held with it, the
// caller is to stop first.
func (es *entries) endHold() {
	es.noTimer()
	es.qs.later(func() {
		es.hold.entryGone()
		if len(es.rs) == 1 {
			es.qs.t.Clean(es.abandon)
		}
	})
}

// wait waits until all entries hold, until one is lost or refused, or until ctx or the term ends.
// Without error they hold. again reports that a place was lost, for no reason that the caller gave.
//
// Several of these can come at the same moment. The end of the term counts first, because nothing of
// it is left; then that of ctx, and the entries leave although they may hold.
func (es *entries) wait(ctx context.Context) (again bool, err error) {
	select {
	case <-es.done: // almost always, when no entry is ahead
		return es.failed(ctx)
	default:
	}
	t := es.qs.t
	if es.recorded {
		es.records.withdraw(ctx)
	}
	select {
	case <-es.done:
	case <-es.lost:
	case <-ctx.Done():
	case <-t.Context().Done():
	}
	switch {
	case t.Context().Err() != nil:
		return true, es.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
	case ctx.Err() != nil:
		return false, es.giveUp(ctx)
	}
	return es.failed(ctx)
}

// failed returns why an entry got no hold, or has lost it, and then leaves the queues:
// also for an entry that is gone, because leaving deletes its records. Nil means that neither is so.
//
//	an entry is lost, or its limit was deleted   the request joins again
//	the request must not wait                    *NotAcquired, with the first entry of the queue
//	refused for another reason                   that reason
func (es *entries) failed(ctx context.Context) (again bool, err error) {
	es.qs.mu.Lock()
	lost, refusal := es.group.Lost(), es.group.Refusal()
	es.qs.mu.Unlock()
	switch {
	case lost:
		again, err = true, es.rejoin(errPlaceLost)
	case errors.Is(refusal, queue.ErrLimitGone):
		again, err = true, es.rejoin(refusal)
	case errors.Is(refusal, queue.ErrMustWait):
		name, ahead := es.waitsIn()
		es.clean() // before the read for the error, so that the entry is gone sooner
		return false, es.qs.behind(&NotAcquired{Ahead: max(ahead, 0)}, es.qs.firstEntry(ctx, name))
	case refusal == nil:
		return false, nil
	default:
		err = refusal
	}
	es.clean()
	return again, err
}

// rejoin reports that the place was lost and why. If the reason is Close, the entries leave at
// once: the service session may live for the margin, while another hold is unlocked.
func (es *entries) rejoin(why error) error {
	es.stopWaiting()
	end, _ := es.qs.t.Why()
	if end == term.Closed {
		es.clean()
		return why // there will be no queue to join
	}
	es.qs.e.cfg.Logger.Warn("fairlock: place in the queue lost, joining again",
		"name", es.rs[0].Name, "token", es.group.Entries[0].Token, "err", why)
	if es.hooks != nil {
		es.hooks.Rejoins(why)
	}
	return why
}

// take makes the hold of entries that were granted. Between the grant and the hold, time passes, in
// which the first of these can come:
//
//	ctx ends                          the request gives up, and the entries leave
//	a record cannot be written        as prepare
//	an entry is lost                  the request joins again
//	the deadline passes               the same, on the next term: newHold reads the clock
//	an entry is lost after that       Lost finds the hold, or holding does
func (es *entries) take(ctx context.Context, c *call) (h *Handle, again bool, err error) {
	defer func() {
		if again && c.delays != nil {
			c.delays(0)
		}
	}()
	if ctx.Err() != nil {
		return nil, false, es.giveUp(ctx)
	}
	if es.recorded {
		if again, err := es.records.prepare(ctx, c.delays); err != nil {
			return nil, again, err
		}
	}
	if again, err := es.failed(ctx); err != nil { // it was lost before the caller could use it
		return nil, again, err
	}
	es.granted = es.qs.clock.Wall()
	if es.hooks != nil {
		es.reportBlocker()
	}
	h, err = newHold(c.caller, es) //nolint:contextcheck // ctx may be that of a try
	if err != nil {
		return nil, true, es.rejoin(err)
	}
	es.qs.do(func() { es.holding(h.Hold) })
	return h, false, nil
}
