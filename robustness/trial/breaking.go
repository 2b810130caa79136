package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/history"
)

// Breaker is a Service that is not three servers which elect a leader. Faults at its servers are
// its own. Its clients end the sessions of others, so its entries may stay while no client waits.
type Breaker interface {
	Breaks() []Break

	// Sweep returns how long an entry may stay at most whose client has lost its session, and
	// behind which no client waits.
	Sweep() time.Duration

	// Ended reports whether no client has the session of an entry any more.
	Ended(entry string) bool

	// Remains returns what of sessions that no client has any more is in the service.
	Remains(ctx context.Context) ([]string, error)
}

// Break is one fault at the servers of a Breaker.
type Break struct {
	Name string

	// Before is called before the clients are opened; it may be nil.
	Before func(ctx context.Context) error

	// Inject begins the fault, and End ends it after a time between Least and Most. End is nil if
	// the fault is over when Inject returns. Inject returns an error if the fault is not in
	// effect. If it fails, End is called too.
	Inject      func(ctx context.Context, rng *rand.Rand, at []Target) error
	End         func(ctx context.Context) error
	Least, Most time.Duration

	// Cuts means that the holders are cut off before the fault begins, until each is notified: only
	// its own clock tells such a holder that its session is over.
	Cuts bool

	// Spares means that no session may end by the fault.
	Spares bool

	// Refuses means that the service refuses new sessions during the fault: a request that needs
	// one may fail.
	Refuses bool

	// Own means that the fault is aimed at what Fairlock stores, so that peers would not meet it.
	Own bool

	// TTL is that of the sessions that clients open after Before, if they may outlive the fault; 0
	// means the one of all others.
	TTL time.Duration

	// Forgets means that the servers may lose what they have acknowledged. Then no client may be
	// granted for the time Quarantine after the moment that Began returns, and the order of before
	// is not known.
	Forgets    bool
	Quarantine time.Duration
	Began      func() history.Instant

	// Beyond means that the fault breaks what the promises depend on. It is none of the kinds of a Test, and
	// runs by its name only.
	Beyond bool

	// Splits means that the old servers go on for some clients: those may be granted in the quarantine.
	Splits bool

	// Late, if set, is called when all clients are open, and only then the holder holds and the others
	// wait. What they have written since is what the servers lose. Undo ends what Late does; if it is set,
	// clients whose session ended too soon are opened again.
	Late, Undo func(ctx context.Context) error
}

// A Forgetter is a Breaker that knows what its servers have lost.
type Forgetter interface {
	// Forgot reports whether the entry of a queue's holder was seen to be lost in the newest fault.
	Forgot(queue string) bool
}

// Target is what a fault at servers can be aimed at: one queue, its holder and its waiters.
type Target struct {
	Queue   string
	Clients []Client
}

// kind returns the kind of a fault of a Breaker.
func (b *Break) kind() *kind {
	k := &kind{name: b.Name, breaks: b, after: handOver, refusesSessions: b.Refuses}
	k.choose = func(ctx context.Context, _ *aim) error {
		if b.Before == nil {
			return nil
		}
		return b.Before(ctx)
	}
	k.inject = b.inject
	if b.Quarantine > 0 {
		k.after = holderForgotten
	}
	return k
}

// holderForgotten is the rest of a script in which the servers have forgotten the holder. It holds
// until it is notified: a release would hide that the next one is granted too early.
func holderForgotten(ctx context.Context, tr *trial) {
	tr.awaitGrant(ctx, tr.head(), tr.endedAt)
	until(ctx, noticeTime, tr.holder().over)
	tr.heal()
	handOver(ctx, tr)
}

// inject injects the fault, has every other holder release while it lasts, and ends it.
func (b *Break) inject(ctx context.Context, a *aim, all []*trial) error {
	if b.Late != nil {
		var err error
		all, err = b.beginLate(ctx, all)
		if err != nil {
			return err
		}
	}
	markFault(all)
	var at []Target
	for _, tr := range all {
		t := Target{Queue: tr.queue.Name}
		for _, p := range tr.participants {
			t.Clients = append(t.Clients, p.c)
		}
		at = append(at, t)
	}
	for _, tr := range all {
		if b.Cuts {
			tr.holder().noteFault("cut off")
			tr.holder().c.Cut(fault.Both)
		}
	}
	err := b.Inject(ctx, a.rng, at)
	if err == nil && b.Most > 0 {
		for _, tr := range all {
			if tr.n%2 == 1 {
				tr.holder().release()
			}
		}
		await(ctx, nil, b.Least+time.Duration(a.rng.Int64N(int64(b.Most-b.Least)+1)))
	}
	if b.End != nil {
		err = errors.Join(err, b.End(context.WithoutCancel(ctx)))
	}
	ended := Now()
	for _, tr := range all {
		tr.endedAt = ended
	}
	return err
}

// beginLate calls Late and has the holders hold. On a busy machine a session may end before its holder holds, and
// it cannot be renewed any more. Then Undo is called, and all clients are opened again. beginLate returns the
// trials that could be set up.
func (b *Break) beginLate(ctx context.Context, all []*trial) ([]*trial, error) {
	for {
		if err := b.Late(ctx); err != nil {
			return all, err
		}
		each(all, func(tr *trial) { tr.late = tr.startLate(ctx) })
		again := func(tr *trial) bool { return tr.late != nil && tr.setups < maxSetups }
		if b.Undo == nil || ctx.Err() != nil || !slices.ContainsFunc(all, again) {
			break
		}
		if err := b.Undo(ctx); err != nil {
			return all, err
		}
		all = setUpAgain(ctx, all)
	}
	for _, tr := range all {
		if tr.late != nil {
			tr.miss("before the fault: %v", tr.late)
		}
	}
	return all, nil
}

// startLate has the holder hold, at a time when the servers already lose what they acknowledge, and the others
// request. Sessions may end soon, so that does not wait for their entries.
func (tr *trial) startLate(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, cmp.Or(tr.kind.breaks.TTL, timeout)) // no session lives longer
	defer cancel()
	err := tr.startHolder(within)
	for _, p := range tr.participants[1:] {
		p.start()
	}
	return err
}

// startsLate reports whether the participants request nothing before the fault.
func (tr *trial) startsLate() bool { return tr.kind.breaks != nil && tr.kind.breaks.Late != nil }

// maxWait returns the bound of L1 after a fault of a Breaker has ended.
func (b *Break) maxWait() time.Duration { return cmp.Or(b.TTL, TTL) + expiryDelay + b.Quarantine }

// judgeBreak judges what only faults of a Breaker promise: that the fault ends no session, or that
// no client is granted in the quarantine.
func (tr *trial) judgeBreak() {
	b := tr.kind.breaks
	if b == nil || !tr.Hit() || tr.lock != Ours {
		return
	}
	for _, a := range tr.History.Attempts {
		over := overAt(a)
		if b.Spares && isGranted(a) && over != 0 && (a.Back == 0 || over < a.Back) && !starved(a, tr.meter) {
			tr.violated("L1", fmt.Sprintf("client %d lost its session, which the fault should not end", a.Client))
		}
	}
	if f, ok := tr.svc.(Forgetter); ok {
		tr.Forgot = f.Forgot(tr.queue.Name)
	}
	if b.Quarantine == 0 || b.Splits {
		return
	}
	began := b.Began()
	for _, a := range tr.History.Attempts {
		since := began
		if b.Late != nil { // a grant of before may be on its way, and the harness may not get to run
			since += history.Instant(promptly + tr.meter.stalls(began, a.Got))
		}
		early := b.Quarantine - time.Duration(a.Got-began)
		if isGranted(a) && a.Got > since && early > 0 {
			tr.violated("S1", fmt.Sprintf("client %d was granted %s before the end of the quarantine of %s", a.Client, early, b.Quarantine))
		}
	}
}

// breaker returns a service as a Breaker; nil if it is none.
func breaker(svc Service) Breaker {
	b, _ := svc.(Breaker)
	return b
}

// breaks returns the kinds of faults of a Breaker.
func breaks(svc Service) []*kind {
	var all []*kind
	b := breaker(svc)
	if b == nil {
		return nil
	}
	for _, one := range b.Breaks() {
		all = append(all, one.kind())
	}
	return all
}

// killHolder kills the holder's process. Nothing of it is notified, and its session ends because
// the waiter has seen no renewal for a TTL.
func killHolder(ctx context.Context, tr *trial) {
	a, err := tr.process.Report(ctx)
	if err != nil {
		tr.miss("%v", err)
		return
	}
	tr.faultAt = Now()
	tr.process.Halt()
	tr.process = nil
	a.Stopped = true
	tr.record = &a
	tr.access.Write() // sent before, and late
	grantRest(ctx, tr)
}

// LeftBehind is the name of the trial that looks whether a Breaker has anything left of sessions
// that are over.
const LeftBehind = "left-behind"

// LeftBehind waits until a Breaker has nothing left of sessions that no client has, for at most
// its Sweep. It is one trial. A service that is no Breaker has none.
func (r *Test) LeftBehind(ctx context.Context) (*Result, error) {
	b := breaker(r.svc)
	if b == nil || r.lock != Ours {
		return nil, nil //nolint:nilnil // no trial
	}
	number := r.number(LeftBehind)
	res := &Result{
		Service: r.svc.Name(), Lock: r.lock, Kind: LeftBehind, Queue: fmt.Sprintf("%s-%d", LeftBehind, number), Seed: r.seed, Round: number,
		Transport: r.svc.Transport(), Faults: 1, History: &History{},
	}
	ctx, cancel := context.WithTimeout(ctx, b.Sweep()+timeout)
	defer cancel()
	since := Now()
	var left []string
	err := untilSeen(ctx, b.Sweep()+timeout, func(ctx context.Context) (done bool, err error) {
		left, err = b.Remains(ctx)
		if len(left) > 0 {
			await(ctx, nil, time.Second)
		}
		return err == nil && (len(left) == 0 || time.Duration(Now()-since) > b.Sweep()), err
	})
	switch {
	case err != nil:
		res.Missed = fmt.Sprintf("the service could not be read: %v", err)
	case len(left) > 0:
		res.violated("S5", fmt.Sprintf("%d rows are left %s after the last client was closed: %q", len(left), b.Sweep(), left[:min(len(left), 20)]))
	default:
		res.figure(Progress, time.Duration(Now()-since))
	}
	return res, nil
}

// swept removes those entries from a list that no client needs, and that a Breaker removes later.
func swept(svc Service, entries []string) []string {
	b := breaker(svc)
	if b == nil {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), b.Ended)
}
