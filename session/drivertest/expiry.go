package drivertest

import (
	"cmp"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
)

// expiry: what proves that the service has a session, and how sessions end.
func expiry() []testCase {
	return []testCase{
		{"ProofsGoOn", proofsGoOn},
		{"ProofsCountFromSending", proofsFromSending},
		{"ProveBringsAProofNow", proveNow},
		{"NothingIsProvenWhileCutOff", proofsCut},
		{"EntriesLiveAsLongAsProofsPromise", entriesLive},
		{"AnEndFromOutsideIsReported", endReported},
		{"AbandonLeavesEntriesToExpire", abandonLeaves},
		{"AbandonStopsProofs", abandonStops},
		{"NothingJoinsAfterAbandon", abandonJoins},
		{"CloseRemovesAtOnce", closeRemoves},
		{"CloseAfterAbandonRemoves", closeAbandoned},
		{"CloseOfALostSessionSucceeds", closeLost},
	}
}

func proofsGoOn(w *fixture) {
	w.renews()
	machine, began := metronome.Start(), time.Now()
	defer machine.Stop()
	o := w.open()
	e := o.join(line).Entry
	first := o.proven()
	require.NotEmpty(w.t, first, "Open proves the session before it returns")
	w.eventually(func() bool {
		all := o.proven()
		return all[len(all)-1].sent.Sub(first[0].sent) > 2*w.h.TTL
	}, "proofs for two TTLs")

	window := w.h.TTL - o.c.Backend().Profile().Margin(w.h.TTL) + machine.Stalled(began)
	all := o.proven()
	newest := all[0].sent
	for i, p := range all {
		assert.Equal(w.t, w.h.TTL, p.ttl, "the TTL that was asked for")
		assert.LessOrEqual(w.t, p.sent, p.at, "sent before it was acknowledged")
		assert.Less(w.t, p.at.Sub(newest), window, "proof %d comes before the end of belief", i)
		newest = max(newest, p.sent)
	}
	assert.Zero(w.t, o.losses())
	assert.True(w.t, o.sees(e.Ref, 0))
}

func proofsFromSending(w *fixture) {
	w.renews()
	c := w.client()
	d := w.h.TTL / 8
	c.Delay(d)
	clock := c.Backend().Clock()
	begin := clock.Now()
	o := w.openOn(c)
	all := o.proven()
	require.NotEmpty(w.t, all)
	assert.GreaterOrEqual(w.t, all[0].sent, begin, "not sent before Open was called")
	assert.LessOrEqual(w.t, all[0].sent.Add(d), clock.Now(), "Open's answer took %s", d)

	w.eventually(func() bool { return len(o.proven()) >= 4 }, "renewals with slow answers")
	for i, p := range o.proven() {
		assert.LessOrEqual(w.t, p.sent.Add(d), p.at, "proof %d: the answer took %s", i, d)
	}
}

// proveNow judges when the request was sent, and not when its answer came: the service
// may be as slow as the machine is.
func proveNow(w *fixture) {
	o := w.open()
	for range 3 {
		time.Sleep(w.h.TTL / 50) // so that the last proof is older than the question
		asked := o.c.Backend().Clock().Now()
		o.Prove()
		var sent driver.Instant
		w.eventually(func() bool {
			all := o.proven()
			sent = all[len(all)-1].sent
			return sent >= asked
		}, "a proof sent after Prove was called")
		assert.Less(w.t, sent.Sub(asked), cmp.Or(w.h.Proof, w.h.TTL/8), "now, not at the next turn")
	}
}

func proofsCut(w *fixture) {
	w.renews()
	for _, d := range fault.Directions() {
		o := w.open()
		o.c.Cut(d)
		cut := o.c.Backend().Clock().Now()
		o.Prove()
		time.Sleep(w.h.TTL / 4) // the claim is about time
		for _, p := range o.proven() {
			assert.LessOrEqual(w.t, p.sent, cut, "no answer came while cut off: %s", d)
		}
		o.c.Heal()
		w.eventually(func() bool {
			all := o.proven()
			return all[len(all)-1].sent > cut
		}, "proofs after the cut")
	}
}

// entriesLive: the service keeps a dead client's entries until the time that
// the last proof promised, and not for ever.
func entriesLive(w *fixture) {
	w.expires()
	o := w.open()
	o.join(line)
	o.c.Cut(fault.Both)
	clock := o.c.Backend().Clock()
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "entries of a dead client go")
	went := clock.Now()

	newest := o.proven()[0]
	for _, p := range o.proven() {
		if p.sent > newest.sent {
			newest = p
		}
	}
	assert.GreaterOrEqual(w.t, went, newest.sent.Add(newest.ttl), "not before the proof's TTL has passed")
	o.c.Heal()
	w.eventually(func() bool { return o.losses() > 0 }, "the loss is reported after the cut")
}

func endReported(w *fixture) {
	o := w.open()
	o.join(line)
	w.svc.Expire(w.t, o.ID())
	w.count(0, line, "entries die with their session")
	w.eventually(func() bool { return o.losses() > 0 }, "Gone")

	_, err := o.Join(w.ctx, driver.JoinRequest{Line: line})
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
	w.settle(err)
	w.count(0, line, "nothing joins with a lost session")
}

func abandonLeaves(w *fixture) {
	w.expires()
	o := w.open()
	e := o.join(line).Entry
	o.Abandon()
	clock := o.c.Backend().Clock()
	w.count(1, line, "Abandon hands nothing on")
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "it expires")

	all := o.proven()
	assert.GreaterOrEqual(w.t, clock.Now(), all[len(all)-1].sent.Add(w.h.TTL), "not before its time")
	require.Error(w.t, o.leaveErr(e.Ref), "it was not this call that removed it")
}

func abandonStops(w *fixture) {
	w.expires()
	o := w.open()
	o.Abandon()
	o.Prove()
	before := len(o.proven())
	time.Sleep(w.h.TTL / 2) // the claim is about time
	assert.LessOrEqual(w.t, len(o.proven()), before+1, "one may have been under way")
	for _, p := range o.proven()[before:] {
		assert.Less(w.t, p.at.Sub(o.proven()[0].at), w.h.TTL/4)
	}
	assert.Zero(w.t, o.losses(), "it was not lost, it was given up")
}

func abandonJoins(w *fixture) {
	o := w.open()
	o.Abandon()
	o.Abandon()
	_, err := o.Join(w.ctx, driver.JoinRequest{Line: line})
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
	w.settle(err)
	w.count(0, line, "no entry of an abandoned session")
}

func closeRemoves(w *fixture) {
	o := w.open()
	o.join(line)
	o.join(line)
	o.join("gpu")
	require.NoError(w.t, o.end())
	w.count(0, line, "gone when Close returns nil")
	w.count(0, "gpu", "gone when Close returns nil")

	_, err := o.Join(w.ctx, driver.JoinRequest{Line: line})
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
	w.settle(err)
}

func closeAbandoned(w *fixture) {
	o := w.open()
	o.join(line)
	o.Abandon()
	require.NoError(w.t, o.end())
	w.count(0, line, "gone when Close returns nil")
}

func closeLost(w *fixture) {
	o := w.open()
	o.join(line)
	w.svc.Expire(w.t, o.ID())
	require.NoError(w.t, o.close(w.soon()), "its entries are gone, and that is all that Close promises")
}
