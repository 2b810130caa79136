package recipetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// robustWaits are the cases of requests with a ledger that only wait: none is a holder that died.
func robustWaits() []testCase {
	return []testCase{
		{"AWaiterBehindAHolderWithoutALedgerHasNotHeld", robustBehindOthers},
		{"OneThatWaitsForSeveralHasHeldNone", robustAllWaits},
		{"SeveralThatLoseTheirPlaceHaveHeldNone", robustAllRejoin},
	}
}

// waiterEnds are the ways for a waiter's place to end, by the client that it belongs to.
func (w *Fixture) waiterEnds() map[string]func(e driver.Entry) {
	return map[string]func(e driver.Entry){
		"expired": func(e driver.Entry) { w.svc.Expire(w.t, e.Session) },
		"deleted": func(e driver.Entry) { w.svc.Delete(w.t, e.Ref) },
	}
}

// ledger returns the name in the ledger of a lock, "" if it has none.
func (p *Client) ledger(name string) string {
	p.w.t.Helper()
	v, err := core().Of(p.Session).Read(p.w.soon(), driver.ReadRequest{Queue: name, Records: []string{"ledger"}, Fresh: true})
	require.NoError(p.w.t, err)
	return string(v.Records["ledger"].Value)
}

// robustBehindOthers has a waiter end behind a holder of the same lock without a ledger, and
// behind another program's entry.
func robustBehindOthers(w *Fixture) {
	behind := []bool{false, true}
	if w.h.NoForeign {
		behind = behind[:1]
	}
	for _, foreign := range behind {
		for how, end := range w.waiterEnds() {
			a, p := w.Client("holder"), w.Client("waits")
			var h *session.Hold
			var ref driver.Ref
			if foreign {
				ref = w.svc.PutForeign(w.t, name, true)
			} else {
				h = a.hold()
			}
			ctx, cancel := context.WithCancel(w.soon())
			r := p.queueRobust(ctx)
			Until(w.t, "the waiter has taken its name back", func() bool { return a.ledger(name) == "" })
			end(a.nth(1))
			p.joins()
			Until(w.t, "and again", func() bool { return a.ledger(name) == "" })
			cancel()
			r.returned()
			require.Error(w.t, r.Err)
			w.eventually(1, how)
			if foreign {
				w.svc.Delete(w.t, ref)
			} else {
				w.unlock(h)
			}
			w.eventually(0, "released")
			w.past(engine.PastClean, "a waiter was "+how)
		}
	}
}

// robustAllWaits has a request for two locks end while it waits for one: the other one has been
// free all the time.
func robustAllWaits(w *Fixture) {
	for how, end := range w.waiterEnds() {
		a, p := w.Client("holder"), w.Client("waits")
		h := a.robust()
		ctx, cancel := context.WithCancel(w.soon())
		r := p.queueFor(ctx, wantAllRobust(withLedger(), "x", name))
		require.Empty(w.t, a.ledger("x"), "the request has not held")
		end(a.entriesOf("x")[0])
		p.joins()
		cancel()
		r.returned()
		require.Error(w.t, r.Err)
		w.empty("x")
		w.unlock(h)
		w.eventually(0, "released")
		w.pastOf(map[string]engine.Past{"x": engine.PastClean, name: engine.PastClean}, "a waiter was "+how)
	}
}

// robustAllRejoin has such a request join again, and get its hold: it must not wait for itself.
func robustAllRejoin(w *Fixture) {
	for how, end := range w.waiterEnds() {
		a, p := w.Client("holder"), w.Client("waits")
		h := a.robust()
		r := p.queueFor(w.soon(), wantAllRobust(mutex.Options{LockDelay: forever}, "x", name))
		end(a.entriesOf("x")[0])
		p.joins()
		w.unlock(h)
		require.Equal(w.t, engine.PastClean, Previous(r.granted()), how)
		w.unlock(r.Hold)
		w.empty("x", name)
	}
}
