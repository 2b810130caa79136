package recipetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// delays are the cases of locks with a delay after a death, and of several locks with
// ledgers.
func delays() []testCase {
	return []testCase{
		{"LockDelayPassesAfterADeath", delayAfterDeath},
		{"LockDelayAppliesToAWaiterToo", delayWaited},
		{"CancelDuringALockDelayLeavesTheDelayToTheNext", delayCancelled},
		{"PlaceLostInALockDelayIsLost", delayLost},
		{"AllReportADeathInOneQueue", robustAll},
		{"AllThatAreLostInOneQueueAreLostInAll", robustAllLost},
		{"AllThatAreCancelledChangeNoOtherLedger", robustAllCancelled},
	}
}

// delay is the lock delay of requests that wait until it has passed.
func (w *Fixture) delay() time.Duration { return w.short / 2 }

// forever is the lock delay of requests that must not wait for it, or do not wait that long.
const forever = time.Hour

// delayed starts a Lock with a delay, and returns when it has joined.
func (p *Client) delayed(ctx context.Context, delay time.Duration) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, wantRobust(mutex.Options{LockDelay: delay}))
}

// cancelled ends the context of a request that waits for a delay, and returns when it did so.
func (r *Request) cancelled(cancel context.CancelFunc) time.Time {
	w := r.c.w
	w.t.Helper()
	w.wait("for the delay", r)
	at := time.Now()
	cancel()
	r.returned()
	w.prompt(at, r.at)
	require.ErrorIs(w.t, r.Err, context.Canceled)
	require.ErrorIs(w.t, r.Err, session.ErrNotAcquired)
	require.NotErrorIs(w.t, r.Err, session.ErrUnavailable)
	return at
}

// died leaves the death of a holder in the ledger, and an empty queue.
func (w *Fixture) died() {
	w.t.Helper()
	w.svc.Expire(w.t, w.Client("dies").robust().SessionID())
}

func delayAfterDeath(w *Fixture) {
	p := w.Client("p")
	w.unlock(p.delayed(w.soon(), forever).granted()) // no holder has died
	w.died()
	at := time.Now()
	r := p.delayed(w.soon(), w.delay())
	w.unlock(r.granted())
	assert.GreaterOrEqual(w.t, r.at.Sub(at), w.delay())
	w.unlock(p.delayed(w.soon(), forever).granted()) // the last holder has released
}

func delayWaited(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.robust()
	second, third := b.delayed(w.soon(), w.delay()), c.delayed(w.soon(), forever)
	at := time.Now()
	w.svc.Expire(w.t, h.SessionID())
	require.True(w.t, second.granted().PreviousDied())
	assert.GreaterOrEqual(w.t, second.at.Sub(at), w.delay())
	require.True(w.t, third.waiting())
	require.NoError(w.t, second.Hold.Context().Err())
	assert.Positive(w.t, second.Hold.Remaining())
	w.unlock(second.Hold)
	w.unlock(third.granted()) // the last holder has released
}

func delayCancelled(w *Fixture) {
	w.died()
	a, b := w.Client("a"), w.Client("b")
	ctx, cancel := context.WithCancel(w.soon())
	first := a.delayed(ctx, forever)
	second := b.delayed(w.soon(), w.delay())
	at := first.cancelled(cancel)
	require.True(w.t, second.granted().PreviousDied(), "the waiter that gave up has changed nothing in the ledger")
	assert.GreaterOrEqual(w.t, second.at.Sub(at), w.delay(), "and the time begins anew")
	w.unlock(second.Hold)

	w.died()
	ctx, cancel = context.WithCancel(w.soon())
	a.delayed(ctx, forever).cancelled(cancel)
	w.eventually(0, "nothing is left")
	w.past(engine.PastDied, "nor if no waiter was behind it")

	w.died()
	try := func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return mutex.NewWith(s, name, mutex.Options{LockDelay: forever}).TryLock(ctx)
	}
	p := w.Client("tries")
	for answered := false; !answered; { // what the service answers is no outage
		ctx, cancel := context.WithCancel(w.soon())
		r := p.queueFor(ctx, try)
		w.wait("for the delay", r)
		cancel()
		r.returned()
		require.ErrorIs(w.t, r.Err, context.Canceled)
		answered = errors.Is(r.Err, session.ErrNotAcquired)
		require.NotEqual(w.t, answered, errors.Is(r.Err, session.ErrUnavailable))
		require.True(w.t, answered || !w.h.Virtual, "in virtual time it waits for the delay by then")
		w.eventually(0, "nothing is left")
	}

	w.died()
	p = w.mortal("tries")
	ctx, cancel = context.WithCancel(w.soon())
	r := p.queueFor(ctx, try)
	w.wait("for the delay", r)
	p.net.Cut(fault.Both)
	Until(w.t, "the loss of its place", func() bool { return len(p.Rejoined()) > 0 })
	cancel()
	r.returned()
	require.ErrorIs(w.t, r.Err, session.ErrUnavailable, "no session can be opened")
	require.NotErrorIs(w.t, r.Err, session.ErrNotAcquired)
	p.net.Heal()
}

// delayLost deletes the entry of a request that waits only for the delay to pass.
func delayLost(w *Fixture) {
	w.died()
	a, b := w.Client("a"), w.Client("b")
	r := a.delayed(w.soon(), forever)
	next := b.queueRobust(w.soon())
	w.svc.Delete(w.t, a.nth(0).Ref)
	h := next.granted()
	assert.Greater(w.t, within(w.t, w.timeout(), a.joined, "another place in the queue"), h.Token())
	require.True(w.t, r.waiting(), "two hold at once")
	require.True(w.t, h.PreviousDied())
	w.unlock(h)
	assert.Greater(w.t, r.granted().Token(), h.Token())
	w.unlock(r.Hold)
}

// wantAllRobust is a request for all of those locks, which have ledgers.
func wantAllRobust(o mutex.Options, names ...string) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		ms := make([]*mutex.Mutex, len(names))
		for i, n := range names {
			ms[i] = mutex.NewWith(s, n, o)
		}
		return mutex.LockAll(ctx, ms...)
	}
}

// pastOf acquires each of those locks, requires what the hold reports about the hold
// before it, and releases.
func (w *Fixture) pastOf(want map[string]engine.Past, why string) {
	w.t.Helper()
	for n, past := range want {
		p := w.Client("next")
		h, err := mutex.NewWith(p.Session, n, mutex.Options{Robust: true}).Lock(w.soon())
		require.NoError(w.t, err)
		require.Equal(w.t, past, Previous(h), "%s: %s", n, why)
		require.Equal(w.t, past == engine.PastDied, h.PreviousDied(), "%s: %s", n, why)
		w.unlock(h)
		require.NoError(w.t, p.Close())
	}
}

// withLedger are the options of a mutex with a ledger.
func withLedger() mutex.Options { return mutex.Options{Robust: true} }

func robustAll(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	all := wantAllRobust(withLedger(), "x", name, "z")
	h := a.queueFor(w.soon(), all).granted()
	assert.Equal(w.t, engine.PastClean, Previous(h), "there was no hold before")
	w.unlock(h)
	w.died() // in the middle one
	h = a.queueFor(w.soon(), all).granted()
	require.True(w.t, h.PreviousDied())
	r := b.queueFor(w.soon(), all)
	x := endOf(h)
	w.svc.Expire(w.t, h.SessionID())
	require.True(w.t, r.granted().PreviousDied())
	w.unlock(r.Hold)
	w.pastOf(map[string]engine.Past{"x": engine.PastClean, name: engine.PastClean, "z": engine.PastClean}, "released")

	w.died()
	at := time.Now()
	r = b.queueFor(w.soon(), wantAllRobust(mutex.Options{LockDelay: w.delay()}, "x", name))
	require.True(w.t, r.granted().PreviousDied())
	assert.GreaterOrEqual(w.t, r.at.Sub(at), w.delay())
	w.unlock(r.Hold)
	w.when(x)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// robustAllLost: a holder that loses one of several locks has stopped in the middle of the
// work that the others protect, too.
func robustAllLost(w *Fixture) {
	a := w.Client("a")
	h := a.queueFor(w.soon(), wantAllRobust(withLedger(), "x", "y", "z")).granted()
	x := endOf(h)
	behind := w.Client("b").queueFor(w.soon(), wantOne("y")) // with a waiter behind, it is watched at once
	w.svc.Delete(w.t, Refs(h)[1])
	w.when(x)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.unlock(behind.granted())
	w.empty("x", "y", "z")
	w.pastOf(map[string]engine.Past{"x": engine.PastDied, "y": engine.PastDied, "z": engine.PastDied}, "lost")
}

// robustAllCancelled has a request give up during the delay of one of the queues.
func robustAllCancelled(w *Fixture) {
	w.died()
	a := w.Client("a")
	ctx, cancel := context.WithCancel(w.soon())
	a.queueFor(ctx, wantAllRobust(mutex.Options{LockDelay: forever}, "x", name, "z")).cancelled(cancel)
	w.empty("x", name, "z")
	w.pastOf(map[string]engine.Past{"x": engine.PastClean, name: engine.PastDied, "z": engine.PastClean}, "cancelled")
}
