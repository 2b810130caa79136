package drivertest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
)

// expiry: what proves that the service has a session, and how sessions end.
func expiry() []testCase {
	return []testCase{
		{"InfoMakesSense", infoSense},
		{"OpenRefusesATTLAboveTheMaximum", openTooLong},
		{"RenewalsGoOn", renewalsGoOn},
		{"RenewalsCountFromSending", renewalsFromSending},
		{"RenewBringsARenewalNow", renewNow},
		{"NothingIsRenewedWhileCutOff", renewalsCut},
		{"EntriesLiveAsLongAsRenewalsPromise", entriesLive},
		{"AnEndFromOutsideIsReported", endReported},
		{"AbandonLeavesEntriesToExpire", abandonLeaves},
		{"AbandonStopsRenewals", abandonStops},
		{"NothingIsDoneAfterAbandon", abandonOver},
		{"CloseRemovesAtOnce", closeRemoves},
		{"CloseOfASessionThatIsOverSucceeds", closeOver},
		{"OpenThatFailedLeavesNothing", openFailed},
	}
}

func renewalsGoOn(w *fixture) {
	w.renews()
	machine := metronome.Start()
	defer machine.Stop()
	w.exact(func() (inTime bool) { // a service that stands still answers too late
		began, o := time.Now(), w.open()
		e := o.join(queue).Entry
		first := o.renewed()
		require.NotEmpty(w.t, first, "Open proves the session before it returns")
		w.eventually(func() bool {
			return o.newest().Sub(first[0].sent) > 2*w.h.TTL || o.losses() > 0
		}, "renewals for two TTLs")

		window := w.h.TTL - o.c.Backend().Info().Margin(w.h.TTL) + machine.Stalled(began)
		all := o.renewed()
		newest, ages := all[0].sent, []time.Duration{}
		for _, r := range all {
			assert.Equal(w.t, w.h.TTL, r.ttl, "the TTL that was asked for")
			assert.Positive(w.t, r.lag)
			assert.Less(w.t, r.lag, window)
			assert.LessOrEqual(w.t, r.sent, r.at, "sent before it was acknowledged")
			ages = append(ages, r.at.Sub(newest))
			newest = max(newest, r.sent)
		}
		slices.Sort(ages)
		asReported := ages[len(ages)/2] < all[0].lag+w.h.TTL/8
		return asReported && ages[len(ages)-1] < window && o.losses() == 0 && o.sees(e.Ref)
	}, "each renewal comes before the end of the trust window, most as early as their lag reports, and nothing is lost")
}

func renewalsFromSending(w *fixture) {
	w.renews()
	c := w.client()
	d := w.h.TTL / 8
	c.Delay(d)
	clock := c.Backend().Info().Clock
	begin := clock.Now()
	o := w.openOn(c)
	all := o.renewed()
	require.NotEmpty(w.t, all)
	assert.GreaterOrEqual(w.t, all[0].sent, begin, "not sent before Open was called")
	assert.LessOrEqual(w.t, all[0].sent.Add(d), clock.Now(), "Open's answer took %s", d)

	w.eventually(func() bool { return len(o.renewed()) >= 4 }, "renewals with slow answers")
	for i, r := range o.renewed() {
		assert.LessOrEqual(w.t, r.sent.Add(d), r.at, "renewal %d: the answer took %s", i, d)
	}
}

func renewNow(w *fixture) {
	machine := metronome.Start()
	defer machine.Stop()
	o := w.open()
	for range 3 {
		w.exact(func() bool {
			time.Sleep(w.short / 50) // so that the last renewal is older than the question
			began, asked := time.Now(), o.clock().Now()
			o.Renew()
			w.eventually(func() bool { return o.newest() >= asked }, "a renewal sent after Renew was called")
			took := o.clock().Now().Sub(asked) - machine.Stalled(began)
			return took < w.h.TTL/8
		}, "now, not at the next turn")
	}
}

func renewalsCut(w *fixture) {
	for _, d := range fault.Directions() {
		o := w.open()
		o.c.Cut(d)
		cut := o.clock().Now()
		o.Renew()
		time.Sleep(w.short / 4) // the claim is about time
		assert.LessOrEqual(w.t, o.newest(), cut, "no answer came while cut off: %s", d)
		o.c.Heal()
		w.eventually(func() bool { return o.newest() > cut }, "renewals after the cut")
	}
}

// entriesLive: the service keeps a dead client's entries until the time that the last
// renewal promised, and not for ever. So a context that ended a margin before that ended
// before another can be the first.
func entriesLive(w *fixture) {
	w.expires()
	w.attend(queue)
	o := w.open()
	o.join(queue)
	o.c.Cut(fault.Both)
	w.becomes(0, queue, "entries of a dead client go")
	went := o.clock().Now()

	assert.GreaterOrEqual(w.t, went, o.newest().Add(w.h.TTL), "not before the renewal's TTL has passed")
	o.c.Heal()
	w.eventually(func() bool { return o.losses() > 0 }, "the loss is reported after the cut")
}

// over requires that all methods of a session report that it is over.
func (o *owner) over(kept driver.Ref) {
	o.w.t.Helper()
	for _, c := range calls() {
		err := c.call(o.w.soon(), o, kept)
		o.w.settle(err)
		require.ErrorIs(o.w.t, err, driver.ErrSessionOver, "%s", c.name)
	}
	o.w.counts(0, "nothing joins with a session that is over")
}

func endReported(w *fixture) {
	w.expires() // the next renewal at the latest reports it
	o := w.open()
	kept := o.keep()
	w.svc.Expire(w.t, o.ID())
	w.count(0, "kept", "entries end with their session")
	w.eventually(func() bool { return o.losses() > 0 }, "Gone")
	o.over(kept)
}

func abandonLeaves(w *fixture) {
	w.expires()
	w.attend(queue)
	by := w.observe()
	w.exact(func() (inTime bool) {
		o := w.open()
		req := plain()
		req.Ops = []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}
		o.joinWith(req)
		o.Abandon()
		left := w.svc.Count(w.t, queue)
		by.fresh(queue)
		slot := by.value("slot/0")
		inTime = o.clock().Now() < o.newest().Add(w.h.TTL)
		if inTime {
			assert.Equal(w.t, 1, left, "Abandon leaves everything at the service")
			assert.Equal(w.t, "mine", slot, "and what is bound to it")
		}
		w.becomes(0, queue, "it expires")
		assert.GreaterOrEqual(w.t, o.clock().Now(), o.newest().Add(w.h.TTL), "not before its time")
		w.eventually(func() bool {
			by.fresh(queue)
			return by.value("slot/0") == ""
		}, "and what is bound to it")
		return inTime
	}, "read before it expired")
}

func abandonStops(w *fixture) {
	w.expires()
	o := w.open()
	o.Abandon()
	abandoned := o.clock().Now()
	o.Renew()
	before := o.renewed()
	time.Sleep(w.h.TTL / 2) // the claim is about time
	after := o.renewed()
	assert.LessOrEqual(w.t, len(after), len(before)+1, "one may have been under way")
	for _, r := range after[len(before):] {
		assert.LessOrEqual(w.t, r.sent, abandoned, "sent before")
	}
	assert.Zero(w.t, o.losses(), "it was not lost, it was given up")
}

func abandonOver(w *fixture) {
	o := w.open()
	kept := o.keep()
	o.Abandon()
	o.Abandon()
	o.over(kept)
	w.count(1, "kept", "what it had stays")
}

func closeRemoves(w *fixture) {
	o := w.open()
	o.join(queue)
	o.joinQueues(queues()...)
	kept := o.keep()
	require.NoError(w.t, o.end())
	w.counts(0, "gone when Close returns nil")
	w.count(0, "kept", "gone when Close returns nil")
	o.over(kept)
}

// closeOver: its entries are gone, and that is all that Close promises.
func closeOver(w *fixture) {
	for _, end := range []func(o *owner){(*owner).Abandon, func(o *owner) { w.svc.Expire(w.t, o.ID()) }} {
		o := w.open()
		o.join(queue)
		end(o)
		require.NoError(w.t, o.end())
		w.count(0, queue, "gone when Close returns nil")
	}
}

// openFailed: the session was made and the answer never came. There is nothing to see of
// it from outside but that the next one works.
func openFailed(w *fixture) {
	c := w.client()
	c.Cut(fault.Replies)
	_, err := w.tryOpen(w.moment(), c, false)
	require.Error(w.t, err)
	c.Heal()
	o := w.openOn(c)
	checkView(w, o.join(queue), nil)
	assert.Zero(w.t, o.losses())
}

// observers: sessions for tools, which make no entries.
func observers() []testCase {
	return []testCase{
		{"AnObserverJoinsNothingAndIsNeverRenewed", observerIsNone},
		{"AnObserverReadsChangesAndEvicts", observerActs},
		{"AnObserverGoesOnAfterACut", observerCut},
	}
}

func observerIsNone(w *fixture) {
	w.expires()
	by := w.observe()
	_, err := by.Join(w.soon(), plain())
	require.ErrorIs(w.t, err, driver.ErrRefused)
	w.count(0, queue, "no entry was made")
	by.Renew()
	time.Sleep(2 * w.h.TTL) // the claim is about time
	assert.Empty(w.t, by.renewed())
	assert.Zero(w.t, by.losses(), "it has nothing that could expire")
	assert.Empty(w.t, by.list(queue), "it works")
}

func observerActs(w *fixture) {
	by, o := w.observe(), w.open()
	by.set("limit", "3")
	by.set("limit", "4")
	e := o.joinWith(valued("v")).Entry
	assert.Equal(w.t, o.list(queue), by.list(queue))
	names, err := by.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{queue}, names)
	r := by.armedEntry("entry", e.Ref)
	way("Evict").delete(by, e.Ref, driver.Deleted, "evicted")
	r.awaitGone()
	require.NoError(w.t, by.end())
	o.fresh(queue)
	assert.Equal(w.t, "4", o.value("limit"), "it stays")
}

func observerCut(w *fixture) {
	by, o := w.observe(), w.open()
	r, _ := by.armed("queue", ofQueue(queue))
	by.c.Cut(fault.Both)
	e := o.join(queue).Entry
	time.Sleep(w.short / 20)
	by.c.Heal()
	r.awaitNews(func() bool { return by.sees(e.Ref) })
}

// leaks: nothing runs on in the process when a session is over.
func leaks() []testCase {
	return []testCase{
		{"CloseLeavesNoGoroutine", func(w *fixture) {
			noLeak(w, func(o *owner) { require.NoError(w.t, o.end()) })
		}},
		{"AbandonLeavesNoGoroutine", func(w *fixture) { noLeak(w, func(o *owner) { o.Abandon() }) }},
		{"ALostSessionThatIsClosedLeavesNoGoroutine", func(w *fixture) {
			w.expires() // the next renewal at the latest reports it
			noLeak(w, func(o *owner) {
				w.svc.Expire(w.t, o.ID())
				w.eventually(func() bool { return o.losses() > 0 }, "Gone")
				require.NoError(w.t, o.end())
			})
		}},
		{"AnObserverThatIsClosedLeavesNoGoroutine", func(w *fixture) {
			noLeak(w, func(o *owner) {
				by := w.openWith(o.c, true)
				by.armed("queue", ofQueue(queue))
				require.NoError(w.t, by.end())
				require.NoError(w.t, o.end())
			})
		}},
		{"CallsGivenUpWhileCutLeaveNoGoroutine", func(w *fixture) { noLeak(w, giveUpWhileCut) }},
		{"CloseWhileCutLeavesNoGoroutine", func(w *fixture) { noLeak(w, closeWhileCut) }},
	}
}

// noLeak opens a session that watches and waits, ends it by end, and checks that no
// goroutine is left. A session that end leaves at the service is ended there.
func noLeak(w *fixture, end func(o *owner)) {
	ahead := w.others() // by a client whose goroutines are not counted
	c := w.client()
	warm := w.openOn(c) // what the backend keeps for its own life is there
	warm.join("warm")
	require.NoError(w.t, warm.end())
	mine := slices.Concat(w.h.Leaks, []goleak.Option{goleak.IgnoreCurrent()})

	o := w.openOn(c)
	own := o.join(queue).Entry
	o.armedEntry("ahead", ahead)
	_, stop := o.armed("own", own.Target())
	for _, t := range []driver.Target{ofQueue(queue), ofHolders(), ofRecord("limit")} {
		o.armed("target", t)
	}
	stop()
	end(o)

	err := goleak.Find(mine...)
	for late := time.Now().Add(w.bound()); err != nil && time.Now().Before(late); {
		err = goleak.Find(mine...) // once more: a goroutine that ends may wait for a core
	}
	assert.NoError(w.t, err)
}

func giveUpWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	ctx := w.moment()
	var pending error
	for _, c := range calls() {
		err := c.call(ctx, o, driver.Ref{Queue: queue, Key: "none", Place: 1})
		assert.Error(w.t, err, "%s", c.name)
		if c.kind == fault.Join {
			pending = err
		}
	}
	time.Sleep(w.short / 20)
	o.c.Heal()
	w.settle(pending)
	require.NoError(w.t, o.end())
}

func closeWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	require.Error(w.t, o.close(w.moment()))
	o.c.Heal()
}
