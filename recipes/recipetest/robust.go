package recipetest

import (
	"context"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// robust are the cases of locks that report how the hold before ended.
func robust() []testCase {
	return slices.Concat(
		[]testCase{
			{"FirstHoldAndReleasedHoldsAreClean", robustClean},
			{"DeathIsReportedWhereNoWaiterWas", robustAlone},
			{"DeathIsReportedToAWaiter", robustWaited},
			{"DeathIsReportedThroughHoldersThatDieInTurn", robustInTurn},
			{"PlainLocksKeepNoLedger", robustPlain},
			{"AHolderThatReleasesBeforeMinHoldHasNotDied", robustEarly},
			{"SeveralThatReleaseBeforeMinHoldHaveNotDied", robustAllEarly},
			{"AReleaseBeforeMinHoldIsRecordedAfterACut", robustEarlyCut},
		},
		over("NothingLooksLikeADeathWith%v", fault.Retryable(), func(w *Fixture, f fault.Kind) { robustOver(w, f, false) }),
		over("AReleaseBeforeMinHoldIsRecordedWith%v", fault.Retryable(), robustEarlyOver),
		over("DeathIsReportedWith%v", fault.Retryable(), func(w *Fixture, f fault.Kind) { robustOver(w, f, true) }),
	)
}

// wantRobust is a request for a lock with a ledger.
func wantRobust(o mutex.Options) locking {
	o.Robust = o.LockDelay == 0
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return mutex.NewWith(s, name, o).Lock(ctx)
	}
}

// queueRobust starts a Lock with a ledger, and returns when it has joined.
func (p *Client) queueRobust(ctx context.Context) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, wantRobust(mutex.Options{}))
}

// robust acquires a lock with a ledger.
func (p *Client) robust() *session.Hold {
	p.w.t.Helper()
	return p.queueRobust(p.w.soon()).granted()
}

// past acquires the lock, requires what the hold reports about the one before it, and releases.
func (w *Fixture) past(want engine.Past, why string) {
	w.t.Helper()
	w.pastOf(map[string]engine.Past{name: want}, why)
}

// death is a way for a hold to end without a release. The client must not be used for
// anything else.
type death struct {
	name string
	die  func(w *Fixture, p *Client, h *session.Hold)
}

func deaths() []death {
	return []death{
		{"expired", func(w *Fixture, _ *Client, h *session.Hold) { w.svc.Expire(w.t, h.SessionID()) }},
		{"deleted", func(w *Fixture, _ *Client, h *session.Hold) { w.svc.Delete(w.t, Refs(h)[0]) }},
		{"cut off", func(_ *Fixture, p *Client, _ *session.Hold) { p.net.Cut(fault.Both) }},
		{"closed", func(w *Fixture, p *Client, h *session.Hold) {
			stop := context.AfterFunc(h.Context(), func() { _ = h.Unlock() })
			defer stop()
			p.closes(w.t)
		}},
	}
}

// victim returns a client for the death.
func (d death) victim(w *Fixture, label string) *Client {
	w.t.Helper()
	if d.name == "cut off" {
		return w.mortal(label)
	}
	return w.Client(label)
}

// kill ends a hold by each death, and calls after when the entry is gone.
func (w *Fixture) kill(after func(how string)) {
	w.t.Helper()
	w.attend()
	for _, d := range deaths() {
		p := d.victim(w, "dies")
		h := p.robust()
		d.die(w, p, h)
		w.eventually(0, d.name)
		after(d.name)
		p.net.Heal()
	}
}

func robustClean(w *Fixture) {
	w.past(engine.PastClean, "there was no hold before")
	w.past(engine.PastClean, "released")
	a, b := w.Client("a"), w.Client("b")
	h := a.robust()
	own, other := a.queueRobust(w.soon()), b.queueRobust(w.soon())
	w.unlock(h)
	for _, r := range []*Request{own, other} {
		assert.Equal(w.t, engine.PastClean, Previous(r.granted()), "a waiter after a release")
		w.unlock(r.Hold)
	}
	h, err := w.try(mutex.NewWith(a.Session, name, mutex.Options{Robust: true}).TryLock)
	require.NoError(w.t, err)
	assert.Equal(w.t, engine.PastClean, Previous(h))
	w.unlock(h)
	names, err := a.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "a ledger is no queue")
}

func robustAlone(w *Fixture) {
	w.kill(func(how string) {
		w.past(engine.PastDied, how)
		w.past(engine.PastClean, how+", and then released")
	})
}

func robustWaited(w *Fixture) {
	for _, d := range deaths() {
		p, b, c := d.victim(w, "dies"), w.Client("b"), w.Client("c")
		h := p.robust()
		second, third := b.queueRobust(w.soon()), c.queueRobust(w.soon())
		d.die(w, p, h)
		require.True(w.t, second.granted().PreviousDied(), d.name)
		w.unlock(second.Hold)
		require.Equal(w.t, engine.PastClean, Previous(third.granted()), d.name)
		w.unlock(third.Hold)
		p.net.Heal()
	}
}

func robustInTurn(w *Fixture) {
	w.attend()
	want := engine.PastClean
	for round := range 2 {
		for _, d := range deaths() {
			p := d.victim(w, "dies")
			h := p.robust()
			require.Equal(w.t, want, Previous(h), "%d, %s", round, d.name)
			d.die(w, p, h)
			w.eventually(0, d.name)
			p.net.Heal()
			want = engine.PastDied
		}
	}
	w.past(engine.PastDied, "no holder has released")
	w.past(engine.PastClean, "the last holder has released")
}

func robustPlain(w *Fixture) {
	p := w.Client("p")
	h := p.hold()
	assert.Equal(w.t, engine.PastUnknown, Previous(h))
	assert.False(w.t, h.PreviousDied())
	x := endOf(h)
	w.svc.Expire(w.t, h.SessionID())
	w.eventually(0, "died")
	w.past(engine.PastClean, "a lock without a ledger leaves no trace")
	w.when(x) // before that, Unlock may return that the hold ends with the session
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// robustEarly has entries end by themselves after the Unlock, while MinHold keeps them, and a
// waiter behind them too.
func robustEarly(w *Fixture) {
	for _, d := range deaths() {
		if d.name == "cut off" { // its session expires
			continue
		}
		for _, o := range []mutex.Options{{MinHold: forever}, {MinHold: forever, LockDelay: forever}} {
			p, dies, b := w.Client("releases"), w.Client("dies"), w.Client("b")
			h := p.queueFor(w.soon(), wantRobust(o)).granted()
			Unlock(w.t, h)
			b.sawRelease(name)
			ctx, cancel := context.WithCancel(w.soon())
			waiter := dies.queueRobust(ctx)
			next := b.queueFor(w.soon(), wantRobust(o))
			require.True(w.t, next.waiting(), "MinHold keeps the entry")
			w.svc.Expire(w.t, dies.nth(1).Session)
			dies.joins()
			cancel()
			waiter.returned()
			d.die(w, p, h)
			require.Equal(w.t, engine.PastClean, Previous(next.granted()), "%s, after the Unlock", d.name)
			Unlock(w.t, next.Hold)
			b.sawRelease(name)
			b.closes(w.t)
			w.eventually(0, d.name)
			w.past(engine.PastClean, d.name+", where no waiter was")
		}
	}
}

// sawRelease waits until the ledger of a lock shows that its holder has released, which the answer to
// Unlock may be too late to show.
func (p *Client) sawRelease(name string) {
	p.w.t.Helper()
	Until(p.w.t, "the release in the ledger of "+name, func() bool { return strings.HasPrefix(p.ledger(name), "r:") })
}

// robustEarlyCut: the session records the release when the service answers again.
func robustEarlyCut(w *Fixture) {
	p := w.Client("releases")
	h := p.queueFor(w.soon(), wantRobust(mutex.Options{MinHold: forever})).granted()
	p.net.Cut(fault.Both)
	require.ErrorIs(w.t, h.Unlock(), session.ErrReleasePending)
	p.net.Heal()
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	p.sawRelease(name)
	w.svc.Expire(w.t, h.SessionID())
	w.eventually(0, "expired")
	w.past(engine.PastClean, "released")
}

// robustEarlyOver has a fault hit the record of the release. MinHold passes, and what a
// release deletes is gone.
func robustEarlyOver(w *Fixture, f fault.Kind) {
	p := w.Client("releases")
	h := p.queueFor(w.soon(), wantRobust(mutex.Options{MinHold: w.delay()})).granted()
	p.net.Inject(fault.Update, f)
	UnlockInTrouble(w.t, h)
	w.eventually(0, "MinHold has passed")
	w.past(engine.PastClean, "released")
}

// robustAllEarly: an Unlock that finds one of several entries gone leaves the others.
func robustAllEarly(w *Fixture) {
	for _, gone := range []bool{false, true} {
		p, want := w.Client("releases"), engine.PastClean
		h := p.queueFor(w.soon(), wantAllRobust(mutex.Options{Robust: true, MinHold: forever}, "x", name)).granted()
		if gone {
			w.svc.Delete(w.t, Refs(h)[1])
			err := h.Unlock()
			want = engine.PastDied
			if late(err) {
				p.closes(w.t)
			} else {
				require.ErrorIs(w.t, err, session.ErrLost)
			}
		} else {
			Unlock(w.t, h)
			p.sawRelease("x")
			p.sawRelease(name)
			p.closes(w.t)
		}
		w.empty("x", name)
		w.pastOf(map[string]engine.Past{name: want}, "released")
	}
}

// robustOver has a fault hit each request that writes the ledger.
func robustOver(w *Fixture, f fault.Kind, died bool) {
	want := engine.PastClean
	if died {
		w.died()
		want = engine.PastDied
	}
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	if died {
		a.net.Inject(fault.Update, f)
	}
	h := a.robust()
	require.Equal(w.t, want, Previous(h))
	r := b.queueRobust(w.soon())
	a.net.Inject(fault.Leave, f)
	b.net.Inject(fault.Update, f)
	UnlockInTrouble(w.t, h)
	require.Equal(w.t, engine.PastClean, Previous(r.granted()), "released")
	b.net.Inject(fault.Leave, f)
	UnlockInTrouble(w.t, r.Hold)
	w.eventually(0, "released")
	w.past(engine.PastClean, "released")
}
