package recipetest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// robust are the cases of locks that tell how the hold before ended.
func robust() []testCase {
	return slices.Concat(
		[]testCase{
			{"FirstHoldAndHoldsGivenBackAreClean", robustClean},
			{"DeathIsToldThoughNobodyWaited", robustAlone},
			{"DeathIsToldToWhoWaited", robustWaited},
			{"DeathIsToldThroughHoldersThatDieInTurn", robustInTurn},
			{"ForeignHolderBeforeIsUnknown", robustForeign},
			{"PlainLocksKeepNoAccount", robustPlain},
			{"AccountCostsNothingWhenAlone", robustCost},
			{"AccountCostsOneRequestWhenWaited", robustCostWaited},
		},
		over("NothingLooksLikeADeathWith%v", fault.Retryable(), func(w *Fixture, f fault.Kind) { robustOver(w, f, false) }),
		over("DeathIsToldWith%v", fault.Retryable(), func(w *Fixture, f fault.Kind) { robustOver(w, f, true) }),
	)
}

// wantRobust is a request for a lock that keeps account.
func wantRobust(o mutex.Options) locking {
	o.Robust = o.LockDelay == 0
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return mutex.NewWith(s, name, o).Lock(ctx)
	}
}

// accountable starts a Lock that keeps account, and returns when it has joined.
func (p *Client) accountable(ctx context.Context) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, wantRobust(mutex.Options{}))
}

// robust holds a lock that keeps account.
func (p *Client) robust() *session.Hold {
	p.w.t.Helper()
	return p.accountable(p.w.soon()).granted()
}

// past requires what the next holder learns of the one before, and gives back.
func (w *Fixture) past(want door.Past, why string) {
	w.t.Helper()
	w.pastOf(map[string]door.Past{name: want}, why)
}

// death is a way of a hold to end without being given back. The client must not
// be used for anything else.
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
			require.NoError(w.t, p.Close())
		}},
	}
}

// kill has a hold die of each cause, and calls after when it is gone.
func (w *Fixture) kill(after func(how string)) {
	w.t.Helper()
	for _, d := range deaths() {
		p := w.mortal("dies")
		h := p.robust()
		d.die(w, p, h)
		w.eventually(0, d.name)
		after(d.name)
		p.net.Heal()
	}
}

func robustClean(w *Fixture) {
	w.past(door.PastClean, "nobody has held before")
	w.past(door.PastClean, "given back")
	a, b := w.Client("a"), w.Client("b")
	h := a.robust()
	own, other := a.accountable(w.soon()), b.accountable(w.soon())
	w.unlock(h)
	for _, r := range []*Request{own, other} {
		assert.Equal(w.t, door.PastClean, Previous(r.granted()), "given back to who waited")
		w.unlock(r.Hold)
	}
	h, err := mutex.NewWith(a.Session, name, mutex.Options{Robust: true}).TryLock(w.soon())
	require.NoError(w.t, err)
	assert.Equal(w.t, door.PastClean, Previous(h))
	w.unlock(h)
	names, err := a.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "an account is no line")
}

func robustAlone(w *Fixture) {
	w.kill(func(how string) {
		w.past(door.PastDied, how)
		w.past(door.PastClean, how+", and then given back")
	})
}

func robustWaited(w *Fixture) {
	for _, d := range deaths() {
		p, b, c := w.mortal("dies"), w.Client("b"), w.Client("c")
		h := p.robust()
		second, third := b.accountable(w.soon()), c.accountable(w.soon())
		d.die(w, p, h)
		require.True(w.t, second.granted().PreviousDied(), d.name)
		w.unlock(second.Hold)
		require.Equal(w.t, door.PastClean, Previous(third.granted()), d.name)
		w.unlock(third.Hold)
		p.net.Heal()
	}
}

func robustInTurn(w *Fixture) {
	want := door.PastClean
	for round := range 2 {
		for _, d := range deaths() {
			p := w.mortal("dies")
			h := p.robust()
			require.Equal(w.t, want, Previous(h), "%d, %s", round, d.name)
			d.die(w, p, h)
			w.eventually(0, d.name)
			p.net.Heal()
			want = door.PastDied
		}
	}
	w.past(door.PastDied, "nobody has given back")
	w.past(door.PastClean, "somebody has")
}

func robustForeign(w *Fixture) {
	p := w.Client("p")
	w.unlock(p.robust())
	ref := w.svc.PutForeign(w.t, name, true)
	r := p.accountable(w.soon())
	w.wait("a foreign program holds, and the waiter has read that", r)
	w.svc.Delete(w.t, ref)
	assert.Equal(w.t, door.PastUnknown, Previous(r.granted()))
	assert.False(w.t, r.Hold.PreviousDied())
	w.unlock(r.Hold)
	w.past(door.PastClean, "given back")

	w.died() // who died before the foreign one is not forgotten
	ref = w.svc.PutForeign(w.t, name, true)
	r = p.accountable(w.soon())
	w.svc.Delete(w.t, ref)
	assert.True(w.t, r.granted().PreviousDied())
	w.unlock(r.Hold)
}

func robustPlain(w *Fixture) {
	p := w.Client("p")
	h := p.hold()
	assert.Equal(w.t, door.PastUnknown, Previous(h))
	assert.False(w.t, h.PreviousDied())
	x := tell(h)
	w.svc.Expire(w.t, h.SessionID())
	w.eventually(0, "died")
	w.past(door.PastClean, "who keeps no account leaves no trace")
	w.when(x) // who unlocks before that may be told that it goes with the session
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

func robustCost(w *Fixture) {
	p := w.Client("alone")
	w.unlock(p.robust()) // the first time the account may have to be opened
	p.costsTwo(p.robust)
}

// robustCostWaited: who waits joins, reads at most once to learn whom it waits
// for, and once more when that one goes; an account adds one to that. A read that
// comes at the wrong moment is made again, so it is the best of several that
// counts.
func robustCostWaited(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for _, p := range []*Client{a, b} {
		w.unlock(p.robust()) // the first time the account may have to be opened, or read
	}
	var costs []int
	for range 5 {
		h := a.robust()
		before := b.net.Requests()
		r := b.accountable(w.soon())
		w.unlock(h)
		r.granted()
		costs = append(costs, b.net.Requests()-before)
		w.unlock(r.Hold)
	}
	w.t.Logf("round trips from joining to holding: %v", costs)
	assert.LessOrEqual(w.t, slices.Min(costs), 4)
}

// robustOver strikes each request that writes an account.
func robustOver(w *Fixture, f fault.Kind, died bool) {
	want := door.PastClean
	if died {
		w.died()
		want = door.PastDied
	}
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	if died {
		a.net.Inject(fault.Update, f)
	}
	h := a.robust()
	require.Equal(w.t, want, Previous(h))
	r := b.accountable(w.soon())
	a.net.Inject(fault.Leave, f)
	b.net.Inject(fault.Update, f)
	UnlockInTrouble(w.t, h)
	require.Equal(w.t, door.PastClean, Previous(r.granted()), "given back")
	b.net.Inject(fault.Leave, f)
	UnlockInTrouble(w.t, r.Hold)
	w.eventually(0, "given back")
	w.past(door.PastClean, "given back")
}
