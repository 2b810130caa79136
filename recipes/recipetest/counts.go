package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// counts are the cases whose claim is a number of requests. They run in virtual time only. On
// servers a client sends more: a request that is not answered in time is sent again, a hold is
// watched after 50 ms, and that takes a read if another client has written meanwhile. What a
// request costs a backend is in session/driver/drivertest.
func counts() []testCase {
	return []testCase{
		{"AloneCostsTwoRequests", aloneCostsTwo},
		{"AHoldShorterThanASecondSendsNoRecord", heldShortly},
		{"TheLedgerCostsNothingWhenAlone", robustCost},
		{"TheLedgerCostsOneRequestAfterAWait", robustCostWaited},
		{"ReaderWaitsForTheNearestWriterOnly", nearestWriterOnly},
		{"TryAcquireAloneCostsOneRequestWhereItCan", permitsTryAlone},
	}
}

func aloneCostsTwo(w *Fixture) {
	p := w.Client("alone")
	p.costsTwo(p.hold)
}

// heldShortly counts what is sent for a hold that ends before it is a second old.
func heldShortly(w *Fixture) {
	p := w.Client("p")
	p.sends(2, "to lock and to unlock", func() {
		h := p.hold()
		time.Sleep(500 * time.Millisecond)
		w.unlock(h)
		time.Sleep(2 * time.Second)
	})
}

func robustCost(w *Fixture) {
	p := w.Client("alone")
	w.unlock(p.robust()) // the first hold may have to make the ledger
	p.costsTwo(p.robust)
}

// robustCostWaited: a waiter joins, reads at most once to learn its predecessor, and once
// more when that entry ends; a ledger adds one request. A read at the wrong moment is
// repeated, so the least of several counts.
func robustCostWaited(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for _, p := range []*Client{a, b} {
		w.unlock(p.robust()) // the first hold may have to make the ledger, or read it
	}
	var costs []int
	for range 5 {
		h := a.robust()
		before := b.net.Requests()
		r := b.queueRobust(w.soon())
		w.unlock(h)
		r.granted()
		costs = append(costs, b.net.Requests()-before)
		w.unlock(r.Hold)
	}
	w.t.Logf("round trips from joining to holding: %v", costs)
	assert.LessOrEqual(w.t, slices.Min(costs), 4)
}

// nearestWriterOnly: a reader sends no request when a writer ends that is not the nearest
// one ahead.
func nearestWriterOnly(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.holds(writing)
	ctx, cancel := context.WithCancel(w.soon())
	defer cancel()
	cancelled := a.queueFor(ctx, writing)
	second := a.queueFor(w.soon(), writing)
	nearest := b.queueFor(w.soon(), writing)
	readers := []*Request{c.queueFor(w.soon(), reading), c.queueFor(w.soon(), reading)}
	c.sends(0, "of the readers, while the writers before the nearest ended", func() {
		w.wait("writers are ahead", readers...)
		cancel()
		cancelled.returned()
		w.unlock(h)
		w.unlock(second.granted())
		h = nearest.granted()
		w.wait("the nearest writer holds", readers...)
	})
	w.unlock(h)
	for _, r := range readers {
		w.unlock(r.granted())
	}
}

func permitsTryAlone(w *Fixture) {
	p := w.Client("alone")
	m := semaphore.New(p.Session, name, 3)
	try := func() *session.Hold {
		h, err := w.tryFor(m, 2)
		require.NoError(w.t, err)
		return h
	}
	w.unlock(try())   // it makes the queue, and the limit
	if w.h.Try <= 1 { // elsewhere it takes reads to find the queue empty
		p.costsTwo(try)
	}
}

// rests waits until the client has been silent for longer than it takes until the time of a
// grant is recorded, and returns how many requests it has sent so far. In real time, where
// nothing is counted exactly, it is silent for longer than it takes until a hold is watched.
func (p *Client) rests() int {
	long := wrongly
	if p.w.h.Virtual {
		long = 2 * time.Second
	}
	for sent := -1; ; {
		now := p.net.Requests()
		if now == sent {
			return sent
		}
		sent = now
		time.Sleep(long)
	}
}

// sends requires that a call of act sends so many requests. In real time it only calls it, see
// counts.
func (p *Client) sends(want int, why string, act func()) {
	p.w.t.Helper()
	if !p.w.h.Virtual {
		act()
		return
	}
	before := p.rests()
	act()
	require.Equal(p.w.t, want, p.net.Requests()-before, "requests: %s", why)
}

// silentSince requires that nothing was sent after so many requests.
func (p *Client) silentSince(sent int) {
	p.w.t.Helper()
	if p.w.h.Virtual {
		assert.Equal(p.w.t, sent, p.net.Requests(), "nothing was sent")
	}
}

// costsTwo checks that a client alone in the queue needs one round trip to acquire, and
// one to release.
func (p *Client) costsTwo(lock func() *session.Hold) {
	p.w.t.Helper()
	var h *session.Hold
	costs := p.w.h.Costs(p.net, func() { h = lock() }, func() { p.w.unlock(h) })
	assert.Equal(p.w.t, []int{1, 1}, costs, "round trips to acquire, and to release")
}
