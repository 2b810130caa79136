package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Hold is a lock that is held, from the grant to the release or the loss. Reentrant callers share
// it: each has a Handle, and the lock is released when the last one is unlocked. It implements
// term.Bound: it ends with its term at the latest.
//
//	newHold --> live --last Unlock--> released: unlock deletes the entries
//	              |
//	              +--entry gone, or end of the term--> lost: every context has ended
//	                                                     |
//	                                                     +--last Unlock--> unlock returns the loss
//
// A hold that was released is not lost afterwards, and the other way round: the mutex decides which
// comes first. The contexts end in the same step.
type Hold struct {
	es    *entries
	t     *term.Term
	clock driver.Clock
	hooks Hooks // nil: there are none

	// The rest of the description never changes.
	name  string   // of all locks, as one text for people
	names []string // of the locks
	kind  string   // the recipe
	token int64
	slot  int // -1: none was asked for
	past  Past

	// keep is until when MinHold keeps the entries; 0: not at all.
	keep driver.Instant

	mu sync.Mutex

	// handles are those that were not unlocked. The hold is over when there are none.
	handles []*Handle

	// lost is how the hold was lost, lostErr the public error of that, and lostAt when; zero
	// unless it was. What is lost stays so, and its handles are still unlocked one by one.
	lost    *Loss
	lostErr error
	lostAt  driver.Instant

	// seen has, by the name of a lock, the token of the newest yield request that was returned
	// for the hold; nil until there is one.
	seen map[string]int64
}

// newHold makes the hold of entries that hold, and its first handle. caller is the context of the
// call that has acquired it. The deadline is read once more under the term's mutex, so a hold that
// newHold returns was live after the grant. Otherwise the error is that of the end of the term.
func newHold(caller context.Context, es *entries) (*Handle, error) {
	r := es.rs[0]
	h := &Hold{
		es: es, t: es.qs.t, clock: es.qs.clock, hooks: es.hooks, name: r.Name, names: []string{r.Name}, kind: r.Kind,
		token: es.group.Entries[0].Token, slot: -1,
	}
	if len(es.rs) > 1 {
		h.name, h.names = NameOf(es.rs), Names(es.rs)
	}
	if es.recorded {
		h.past, h.slot = es.records.past(), es.records.slot
	}
	if h.slot >= 0 { // a later entry may have got it earlier, and released it
		h.token = es.records.slotToken
	}
	var least time.Duration
	for _, r := range es.rs {
		least = max(least, r.MinHold)
	}
	if least > 0 {
		h.keep = h.clock.Now().Add(least)
	}
	first := h.handle(caller, r.Mode)
	h.handles = append(h.handles, first)
	err := h.t.Bind(h, func(left time.Duration) {
		if h.hooks != nil {
			h.hooks.Granted(first.values, h.t.ID(), h.token, left) //nolint:contextcheck // it has the values
		}
	})
	if err != nil {
		first.cancel(ErrLost)
		return nil, err //nolint:wrapcheck // the public error of the loss
	}
	return first, nil
}

// Name returns the name of the lock; for several locks, their names as one text for people.
func (h *Hold) Name() string { return h.name }

// Names returns the names of all locks of the hold. The caller does not change them.
func (h *Hold) Names() []string { return h.names }

// Kind returns the recipe.
func (h *Hold) Kind() string { return h.kind }

// Token returns the fencing token.
func (h *Hold) Token() int64 { return h.token }

// Slot returns the slot; -1 if none was asked for.
func (h *Hold) Slot() int { return h.slot }

// Past returns how the hold before this one ended, if the lock has a ledger.
func (h *Hold) Past() Past { return h.past }

// Term returns the term that the hold ends with.
func (h *Hold) Term() *term.Term { return h.t }

// Refs names the entries behind the hold.
func (h *Hold) Refs() []driver.Ref {
	refs := make([]driver.Ref, len(h.es.group.Entries))
	for i, en := range h.es.group.Entries {
		refs[i] = en.Ref
	}
	return refs
}

// Tie has no hold of this process follow this one before the service has acknowledged the release, and
// names the entries. It is for what is done at the service on the condition that the entries are
// there, perhaps late: that must not happen when the next holder is at work. A caller asks afterwards
// whether the hold is over: what is released before the call of Tie may have been passed on.
func (h *Hold) Tie() []driver.Ref {
	h.es.qs.mu.Lock()
	defer h.es.qs.mu.Unlock()
	h.es.tied = true
	return h.Refs()
}

// Engine returns what the hold was acquired through.
func (h *Hold) Engine() *Engine { return h.es.qs.e }

// Clock is that of the Engine.
func (h *Hold) Clock() driver.Clock { return h.clock }

// News reports whether the yield request with that token is newer than all that News was called
// with before, for the same lock. Requests are passed in the order of their tokens.
func (h *Hold) News(name string, token int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if token <= h.seen[name] {
		return false
	}
	if h.seen == nil {
		h.seen = make(map[string]int64, 1)
	}
	h.seen[name] = token
	return true
}

// writes reports whether a handle excludes other holds. The mutex is held.
func (h *Hold) writes() bool {
	return slices.ContainsFunc(h.handles, func(o *Handle) bool { return o.mode == driver.Exclusive })
}

// remove takes out a handle. The mutex is held.
func (h *Hold) remove(o *Handle) {
	h.handles = slices.DeleteFunc(h.handles, func(other *Handle) bool { return other == o })
}

// ended returns how the hold ended for a handle, or, if o is nil, for all its handles. It
// returns nil if the hold has not ended. The mutex is held.
func (h *Hold) ended(o *Handle) error {
	switch {
	case h.lost != nil:
		return h.lostErr
	case len(h.handles) == 0, o != nil && o.unlocked:
		return ErrUnlocked
	}
	return nil
}

// over is ended by the clock, which passes the deadline before a timer may fire. It is for calls that
// are about to send something: after the deadline nothing may be sent in the name of the hold.
func (h *Hold) over(o *Handle) error {
	left := h.t.Left()
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.ended(o)
	if err != nil || left > 0 {
		return err
	}
	return h.public(h.lossNow()) // the term is about to end the hold
}

// unlockTimeout is the longest that Unlock waits for the service.
const unlockTimeout = time.Second

// unlock deletes the entries, unless the hold was lost before. It is called once, when the
// last handle is unlocked, with the time that was left to the deadline then, and returns what
// Unlock does. The first line that applies decides:
//
//	what happened                         returns             and the term
//	the hold was lost before              the loss            deletes other entries of the hold
//	the release is acknowledged           nil                 -
//	the same, before MinHold has passed   nil                 deletes the entries then
//	an entry was gone                     the loss            with MinHold: deletes the others
//	the service ended the session         the loss            -
//	no answer, and the term is over       ErrReleasePending   -: the entries end with the session
//	no answer                             ErrReleasePending   repeats the deletion
//
// Before MinHold has passed, what is sent first is the record of the release, if the lock has a
// ledger, and nothing if it has none. A loss is returned as its public error.
//
// Whatever it returns, the hold counts as released for its term as soon as nothing will be
// sent for it any more: then the last release of a term that has ended closes the service session.
//
//nolint:contextcheck // releasing is bounded by our own clock
func (h *Hold) unlock(lost *Loss, left time.Duration) error {
	t := h.t
	pending := false
	defer func() {
		if !pending {
			t.Released()
		}
	}()
	t.Unbind(h)
	// This context outlives a Close of the Session, which waits for the release. A loss of
	// the term ends it.
	ctx, cancel := driver.WithTimeout(t.Cleaning(), h.clock, min(unlockTimeout, left))
	defer cancel()
	if lost == nil && left == 0 { // the deadline passed before its timer fired
		lost = h.lossNow()
	}
	if lost != nil {
		if t.Ended() == nil { // else the entries end with the service session
			h.dropOthers()
		}
		return h.why(ctx, lost)
	}
	early := time.Duration(0)
	if h.keep > 0 {
		early = max(0, h.keep.Sub(h.clock.Now()))
	}
	err := h.send(ctx, early)
	switch {
	case err == nil:
		pending = early > 0
		if pending {
			t.Keep(h.name, early, h.release)
		}
		return nil
	case errors.Is(err, driver.ErrGone):
		if early > 0 { // the others are still there
			h.dropOthers()
		}
		return h.why(ctx, h.loss(Deleted, nil))
	case errors.Is(err, driver.ErrSessionOver):
		t.End(term.Expired, err) // this request may be the first to find that out
	}
	end := h.lossNow()
	if end.Why == term.Expired { // perhaps before the Unlock
		return h.public(end)
	}
	if t.Cleaning().Err() != nil {
		// Not a loss: the hold had ended by Unlock. The entry goes with the session.
		return fmt.Errorf("%w: %s", ErrReleasePending, t.Ended().Error())
	}
	pending = true
	if early > 0 {
		t.Clean(func(ctx context.Context) error { return settled(h.es.records.released(ctx)) })
	}
	t.ReleaseLater(early, h.release)
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// dropOthers deletes what is left of several entries when the hold was lost with one of them. It is
// called by Unlock and not before, because the caller may still be at work under the others.
func (h *Hold) dropOthers() {
	if len(h.es.rs) > 1 {
		h.t.Clean(h.es.abandon)
	}
}

// send sends the release. If the entries stay for MinHold, it only has the release recorded.
func (h *Hold) send(ctx context.Context, early time.Duration) error {
	switch {
	case early == 0:
		return h.es.release(ctx)
	case slices.ContainsFunc(h.es.rs, hasLedger):
		return h.es.records.released(ctx)
	}
	return nil
}

// release is the release for the term, which repeats it.
func (h *Hold) release(ctx context.Context) error { return settled(h.es.release(ctx)) }

// entryGone ends the hold because another client has deleted its entry. Unbind comes first, so that
// a term that ends at this moment does not report the same loss; whichever comes to Lose first reports.
func (h *Hold) entryGone() {
	h.t.Unbind(h)
	if h.Lose(Deleted, nil) {
		h.ReportLoss()
	}
}

// Lose implements term.Bound. It runs no code of a user, and does not block: between the contexts of
// two holds nothing may come that takes long. It ends the hold, once, and reports whether it did: it does not if
// the last handle was unlocked. The caller calls ReportLoss when everything has ended that ends
// together with the hold.
func (h *Hold) Lose(why term.End, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil || len(h.handles) == 0 {
		return false
	}
	h.lost, h.lostAt = h.loss(why, err), h.clock.Now()
	h.lostErr = h.public(h.lost)
	for _, o := range h.handles {
		o.cancel(h.lostErr)
	}
	return true
}

// ReportLoss implements term.Bound: it logs that the hold was lost, and reports that to hooks.
func (h *Hold) ReportLoss() {
	h.mu.Lock()
	lost := h.lostErr
	h.mu.Unlock()
	h.es.qs.e.cfg.Logger.Warn("fairlock: lock lost", "name", h.name, "token", h.token, "err", lost)
	h.reportEnd(lost)
}

// reportEnd reports to hooks how the hold ended.
func (h *Hold) reportEnd(err error) {
	if h.hooks != nil {
		h.hooks.Over(err)
	}
}

// Held implements term.Bound.
func (h *Hold) Held() (name string, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name, len(h.handles) > 0
}

// loss returns a loss of this hold.
func (h *Hold) loss(why term.End, err error) *Loss {
	return &Loss{Name: h.name, Token: h.token, Session: h.t.ID(), Why: why, Err: err}
}

// lossNow returns the loss that the end of the term means for this hold. While the term is live, the
// deadline has passed and its end is about to come.
func (h *Hold) lossNow() *Loss {
	why, err := h.t.Why()
	if why != "" {
		return h.loss(why, err)
	}
	return h.loss(term.Deadline, nil)
}

// public returns the error of a loss.
func (h *Hold) public(l *Loss) error { return h.es.qs.e.cfg.Lost(*l) }

// why returns the error of Unlock for a lost hold. If the loss began with the entry, why
// finds out whether the entry was deleted alone, or ended with its session: a renewal that
// was sent after the loss and is acknowledged shows that the session lived. It waits for one
// until ctx ends; then the reason stays Deleted.
func (h *Hold) why(ctx context.Context, lost *Loss) error {
	if lost.Why != Deleted {
		return h.public(lost)
	}
	h.mu.Lock()
	since := h.lostAt
	h.mu.Unlock()
	if since == 0 { // Unlock has found it out just now
		since = h.clock.Now()
	}
	ctx, cancel := h.t.Within(ctx)
	defer cancel()
	if h.t.RenewedSince(ctx, since) {
		return h.public(h.loss(Evicted, lost.Err))
	}
	end := h.lossNow()
	if end.Why == term.Expired {
		return h.public(end)
	}
	return h.public(lost)
}
