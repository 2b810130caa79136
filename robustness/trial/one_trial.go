package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/robustness/history"
)

// Bounds. Those by which promises are judged are never widened.
const (
	timeout       = 30 * time.Second        // for what takes milliseconds on an idle machine
	effectTimeout = 10 * time.Second        // within which a fault has to be observed to be in effect
	failover      = 4 * time.Second         // for electing a leader, and for clients to find it, see maxWait
	findLeader    = 1 * time.Second         // for clients to find the leader
	expiryDelay   = 2 * time.Second         // for the service's own delay in expiring sessions
	promptly      = 100 * time.Millisecond  // within which a call returns (S6)
	unlockTime    = 1 * time.Second         // for which Fairlock's Unlock waits for the service
	waiterHold    = 20 * time.Millisecond   // how long a waiter holds
	noticeTime    = 1500 * time.Millisecond // for a holder to notice that its hold is over
)

// leftoverTime is how long entries may stay after all clients have finished (S5).
const leftoverTime = TTL + expiryDelay

// maxWait returns how long the first waiter may have to wait while a majority is up (L1),
// if the service had no leader for the time without. The library cannot shorten that time.
// A fixed bound would have to cover the longest possible one, and be far too wide for most.
func maxWait(without time.Duration) time.Duration {
	return TTL + max(failover, without+findLeader) + expiryDelay
}

// maxWait returns the bound of L1: the documented one, without a failover where no server is
// hurt. A waiter whose wakeup was lost reads the queue after 7.5 to 12.5 s, so a wider bound
// would hide that. Where all replies are late, a grant takes several of them, one after
// another, and so does a lost session that is opened again.
func (tr *trial) maxWait() time.Duration {
	if tr.kind.breaks != nil {
		return tr.kind.breaks.maxWait()
	}
	if !tr.kind.server() && !tr.kind.late {
		return TTL + expiryDelay
	}
	return maxWait(tr.leaderPoll.leaderless())
}

// trial is one trial: its own queue, a holder, a head waiter behind it, and another waiter
// behind that, each with its own client.
type trial struct {
	svc        Service
	lock       string
	kind       *kind
	rng        *rand.Rand // used by the script's goroutine only
	n          int        // its number in the round
	quiet      bool       // its holds are asked nothing until their contexts have ended
	aim        *aim
	meter      stallMeter
	leaderPoll *leaderPoll // nil where faults are aimed at clients

	queue        history.Queue
	resource     *Resource // what the queue protects
	participants []*participant
	early        []*participant   // two that were ahead of the holder when it joined; often there are none
	crowded      bool             // they join or are still there, so the holder does not hold yet
	joined       []string         // the entries that the set-up has seen, each behind those that joined before
	process      *Process         // the holder, instead of a participant; nil in most kinds
	access       *Access          // of the process, made here for it
	record       *history.Attempt // of the process

	faultAt, releasedAt history.Instant
	endedAt             history.Instant // when the fault of a Breaker, or a long delay, ended
	gone                history.Instant // when a watch on the entry of a holder that was cut off reported its end
	lost                func() bool     // reports whether the reply that is to be lost was lost
	firstName           string          // the name of its first queue
	setups              int             // how often setUpOnce was called
	notSetUp            bool            // setUp failed
	late                error           // why the holder did not hold when a Break was Late
	unreadable          bool            // the service could not be read
	orderless           bool            // the lock has no order at the service
	Result
}

func (tr *trial) holder() *participant { return tr.participants[0] }
func (tr *trial) head() *participant   { return tr.participants[1] }
func (tr *trial) last() *participant   { return tr.participants[2] }

// shares reports whether the head waiter is of the holder's session.
func (tr *trial) shares() bool { return tr.kind.shared && tr.lock == Ours }

// judged returns the participant whose hold is judged: the holder, or the head waiter if that is of the
// holder's session, which passes the lock on.
func (tr *trial) judged() *participant {
	if tr.shares() {
		return tr.head()
	}
	return tr.holder()
}

// next returns the participant that holds after that.
func (tr *trial) next() *participant {
	if tr.shares() {
		return tr.last()
	}
	return tr.head()
}

// requests returns what the participants request of the queue. Each request has to wait for
// the one before.
func (tr *trial) requests() []Request {
	requests := make([]Request, 4)
	reader := tr.rng.IntN(2)
	for i := range requests {
		requests[i] = Request{Weight: 1, Quiet: tr.quiet, Generation: tr.kind.generation(i)}
		switch tr.queue.Recipe {
		case history.ReadWrite:
			requests[i].Shared = i%2 == reader
		case history.Semaphore:
			requests[i].Weight = 2
		case history.Mutex, history.Reentrant:
		}
	}
	if tr.queue.Recipe == history.Semaphore && !tr.kind.four {
		requests[2].Weight = 1 // fits next to the holder or the head, but must not pass the head
	}
	return requests
}

// maxSetups is how often the participants are set up, if one loses its place before the
// fault, as happens when the process is starved.
const maxSetups = 6

// setUp opens the clients, and has the holder hold and the others wait.
func (tr *trial) setUp(ctx context.Context) error {
	for ; ; tr.startOver(ctx) {
		tr.setups++
		err := tr.setUpOnce(ctx)
		if err == nil || tr.setups >= maxSetups || ctx.Err() != nil {
			return err
		}
	}
}

// startOver ends what setUpOnce has begun, and chooses another queue.
func (tr *trial) startOver(ctx context.Context) {
	tr.abandon(ctx)
	if tr.firstName == "" {
		tr.firstName = tr.queue.Name
	}
	tr.queue.Name = fmt.Sprintf("%s-%d", tr.firstName, tr.setups)
	tr.Queue = tr.queue.Name
}

// abandon ends what setUpOnce has begun, and judges it: a place may have been lost because a
// waiter was granted too early.
func (tr *trial) abandon(ctx context.Context) {
	tr.heal()
	for _, p := range tr.all() {
		if p != nil {
			p.release()
			p.end()
		}
	}
	if tr.process != nil {
		tr.process.Halt()
	}
	tr.close(ctx)
	tr.judgeAbandoned()
	tr.participants, tr.early, tr.process, tr.crowded, tr.joined = nil, nil, nil, false, nil
}

func (tr *trial) setUpOnce(ctx context.Context) error {
	n := 3
	if tr.kind.four {
		n = 4
	}
	requests := tr.requests()
	tr.resource = NewResource(tr.queue)
	tr.participants = make([]*participant, n)
	var g errgroup.Group
	for i := range tr.participants {
		var members []int
		if tr.kind.members != nil {
			members = tr.kind.members(tr, i)
		}
		g.Go(func() error {
			if i == 0 && tr.kind.process || i == 1 && tr.shares() {
				return nil
			}
			c, err := tr.svc.Client(ctx, tr.lock, members...)
			if err != nil {
				return fmt.Errorf("open client %d: %w", i, err)
			}
			keep := waiterHold
			if i == 0 || i == 1 && tr.kind.headStays {
				keep = -1
			}
			tr.participants[i] = newParticipant(i, c, tr.queue, tr.resource, requests[i], keep)
			tr.participants[i].stays = tr.kind.rollout && tr.n%2 == 1
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if tr.shares() {
		tr.participants[1] = newParticipant(1, tr.holder().c, tr.queue, tr.resource, requests[1], -1)
		tr.participants[1].follows = true
	}
	if tr.startsLate() {
		return nil
	}
	if tr.lock == Ours && !tr.kind.process && tr.queue.Recipe != history.Semaphore && tr.rng.IntN(2) == 0 {
		if err := tr.startEarly(ctx); err != nil {
			return err
		}
	}
	if err := tr.startHolder(ctx); err != nil {
		return err
	}
	for i, p := range tr.participants[1:] {
		if i == 1 && (tr.kind.before != nil || tr.kind.rollout) {
			break
		}
		p.start()
		if err := tr.awaitEntries(ctx, len(tr.early)+i+2); err != nil {
			return err
		}
	}
	if err := tr.endEarly(ctx); err != nil {
		return err
	}
	if tr.kind.before != nil {
		if err := tr.kind.before(ctx, tr); err != nil {
			return err
		}
	}
	return errors.Join(tr.checkReady(), tr.checkConnected(ctx))
}

// startEarly has two others join before the holder, one of which holds. A release does more at
// some services if it is that of an entry that joined behind others.
func (tr *trial) startEarly(ctx context.Context) error {
	tr.crowded = true
	for i := range 2 {
		c, err := tr.svc.Client(ctx, tr.lock)
		if err != nil {
			return fmt.Errorf("open early client %d: %w", i, err)
		}
		p := newParticipant(10+i, c, tr.queue, tr.resource, Request{Weight: 1, Quiet: tr.quiet}, -1)
		tr.early = append(tr.early, p)
		p.start()
		if err := tr.awaitEntries(ctx, i+1); err != nil {
			return err
		}
	}
	return nil
}

// endEarly has these release, and waits until the holder holds.
func (tr *trial) endEarly(ctx context.Context) error {
	if !tr.crowded {
		return nil
	}
	for _, p := range tr.early {
		p.release()
	}
	if err := tr.awaitHolder(ctx); err != nil {
		return err
	}
	tr.crowded, tr.joined = false, tr.joined[len(tr.early):]
	return tr.awaitEntries(ctx, len(tr.joined))
}

// startHolder has the holder acquire the lock, or wait behind those that are early.
func (tr *trial) startHolder(ctx context.Context) error {
	if tr.kind.process {
		return tr.startHolderProcess(ctx)
	}
	tr.holder().start()
	if tr.crowded {
		return tr.awaitEntries(ctx, len(tr.early)+1)
	}
	return tr.awaitHolder(ctx)
}

// awaitHolder waits until the holder holds.
func (tr *trial) awaitHolder(ctx context.Context) error {
	p := tr.holder()
	if !await(ctx, p.got, timeout) || !p.holds() {
		return errors.New("the holder does not hold")
	}
	return nil
}

// startHolderProcess is startHolder with the holder in a process. This process accesses the
// resource on its behalf.
func (tr *trial) startHolderProcess(ctx context.Context) (err error) {
	tr.process, err = tr.svc.Process(ctx, tr.lock, tr.queue.Name, Request{Weight: 1, Quiet: tr.quiet, Generation: tr.kind.generation(0)})
	if err != nil {
		return err
	}
	a, err := tr.process.Report(ctx)
	if err == nil {
		tr.access = tr.resource.Read(a)
	}
	return err
}

// all are those that are early, and all other participants.
func (tr *trial) all() []*participant { return slices.Concat(tr.early, tr.participants) }

// awaitEntries waits until n entries are in the queue. It fails if the holder or the head waiter
// leaves meanwhile, or if those that joined are not where they were: a script aims at an entry by
// its index, and one that has lost its place joins again behind the others.
func (tr *trial) awaitEntries(ctx context.Context, n int) error {
	var left error
	err := untilSeen(ctx, timeout, func(ctx context.Context) (bool, error) {
		left = tr.checkReady()
		if left != nil {
			return true, left
		}
		entries, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		if err != nil || len(entries) != n {
			return false, err
		}
		if !slices.Equal(entries[:len(tr.joined)], tr.joined) {
			left = fmt.Errorf("an entry has lost its place: %q, after %q", entries, tr.joined)
		}
		tr.joined = entries
		return true, nil
	})
	err = errors.Join(left, err)
	if err != nil {
		return fmt.Errorf("wait for %d entries: %w", n, err)
	}
	return nil
}

// checkReady checks that the holder still holds, unless others are ahead of it, and that the
// head waiter still waits.
func (tr *trial) checkReady() error {
	if tr.startsLate() && !tr.holder().started() {
		return nil
	}
	if !tr.kind.process && !tr.crowded && !tr.holder().holds() {
		return errors.New("the holder no longer held")
	}
	if tr.head().returned() {
		return errors.New("the head waiter no longer waited")
	}
	return nil
}

// checkConnected checks that the participant that the fault is aimed at is connected to the
// targeted member.
func (tr *trial) checkConnected(ctx context.Context) error {
	if tr.kind.atTarget == nil {
		return nil
	}
	p := tr.kind.atTarget(tr)
	if !until(ctx, TTL, func() bool { return p.c.Member() == tr.aim.member }) {
		return fmt.Errorf("client %d is connected to member %d, not %d", p.id, p.c.Member(), tr.aim.member)
	}
	return tr.checkReady()
}

// miss notes why the trial does not count; the first reason stays.
func (tr *trial) miss(format string, args ...any) {
	if tr.Missed == "" {
		tr.Missed = fmt.Sprintf(format, args...)
	}
}

// void notes why the trial cannot be judged at all.
func (tr *trial) void(format string, args ...any) {
	tr.miss(format, args...)
	tr.unreadable = true
}

// inject injects the fault f now, which is aimed at a participant, or at servers if p is
// nil.
func (tr *trial) inject(p *participant, f func()) {
	if p != nil {
		p.noteFault(tr.kind.name)
	}
	tr.faultAt = Now()
	f()
}

// releaseHolder has the holder release. The waits of the others are measured from now.
func (tr *trial) releaseHolder() {
	if tr.holder() != nil {
		tr.holder().release()
	}
	tr.releasedAt = Now()
}

// awaitGrant waits until a participant holds. It is a violation of L1 if that takes longer
// than maxWait from since on, not counting time in which nothing ran. awaitGrant ignores a
// participant whose request failed or whose context has ended.
func (tr *trial) awaitGrant(ctx context.Context, p *participant, since history.Instant) {
	tr.meter.await(ctx, p.got, since, tr.maxWait)
	a := p.attempt()
	waited := max(0, time.Duration(a.Got-since))
	switch {
	case a.Failed != "" || a.Ends != 0:
	case a.Got == 0, waited > 0 && waited > tr.maxWait()+tr.meter.stalls(since, a.Got):
		tr.violated("L1", fmt.Sprintf("client %d was not granted within %s", p.id, tr.maxWait()))
	default:
		tr.figure(Progress, waited)
	}
}

// handOver has the holder release, and waits until the waiters have held, one after another.
func handOver(ctx context.Context, tr *trial) {
	tr.releaseHolder()
	grantRest(ctx, tr)
}

// awaitLeft waits until an entry has left the queue, and returns when that was; 0 if it has
// not within d.
func (tr *trial) awaitLeft(ctx context.Context, entry string, d time.Duration) history.Instant {
	if w, ok := tr.svc.(Watcher); ok {
		until(ctx, d, func() bool { return w.Left(entry) != 0 })
		return w.Left(entry)
	}
	err := untilSeen(ctx, d, func(ctx context.Context) (bool, error) {
		entries, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		return err == nil && !slices.Contains(entries, entry), err
	})
	if err != nil {
		return 0
	}
	return Now()
}
