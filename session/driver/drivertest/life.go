package drivertest

import (
	"regexp"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
)

// life: the service may have lost what it had acknowledged, and begins anew. A client of before may
// trust its session for the longest TTL.
func life(ways []string) []testCase {
	return slices.Concat(
		over("SessionsOfBeforeAreOverAfter%v", ways, lifeOver),
		over("AClientThatWasCutOffLearnsOf%vAfterTheCut", ways, lifeCutOff),
		over("NoEntryIsMadeForTheLongestTTLAfter%v", ways, lifeQuarantine),
		over("AnOpenThatGivesUpDoesNotBeginTheWaitAnewAfter%v", ways, lifeGivenUp),
		over("ASecond%vDuringTheWaitBeginsItAnew", ways, lifeTwice),
		over("TokensRiseOver%v", ways, lifeTokens),
		over("ALateJoinFromBeforeMakesNoEntryAfter%v", ways, lifeLate),
	)
}

// lives is called first in cases of new lives. It returns the longest TTL, which all sessions of the
// case have.
func (w *fixture) lives() time.Duration {
	w.t.Helper()
	w.h.TTL = w.client().Backend().Info().MaxTTL
	require.Positive(w.t, w.h.TTL, "a service that can begin a new life has a longest TTL")
	return w.h.TTL
}

// newLife begins a new life, and returns a time before it.
func (w *fixture) newLife(way string) (before driver.Instant) {
	w.t.Helper()
	svc, ok := w.svc.(Lives)
	require.True(w.t, ok, "Harness.Lives: the Service is none")
	before = w.clients[0].Backend().Info().Clock.Now()
	svc.NewLife(w.t, way)
	return before
}

// now is the present moment on the clock of all clients.
func (w *fixture) now() driver.Instant { return w.clients[0].Backend().Info().Clock.Now() }

func lifeOver(w *fixture, way string) {
	w.lives()
	o := w.open()
	kept := o.keep()
	w.newLife(way)
	o.over(kept)
	w.eventually(func() bool { return o.losses() > 0 }, "Gone")
}

func lifeCutOff(w *fixture, way string) {
	w.lives()
	o := w.open()
	kept := o.keep()
	o.c.Cut(fault.Both)
	w.newLife(way)
	next := w.open().join("kept")
	checkView(w, next, nil)
	o.c.Heal()
	o.over(kept)
	w.eventually(func() bool { return o.losses() > 0 }, "Gone")
	w.count(1, "kept", "the entry of the new life")
}

// lifeQuarantine: the sessions of before are as long as any can be.
func lifeQuarantine(w *fixture, way string) {
	most := w.lives()
	o := w.open()
	req := plain()
	req.Ops = []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}
	o.joinWith(req)
	before := w.newLife(way)
	w.givesUp(w.client(), most/4, before)

	by := w.open()
	j := by.join(queue)
	made := w.now()
	assert.GreaterOrEqual(w.t, made, before.Add(most), "not before the longest TTL has passed")
	assert.GreaterOrEqual(w.t, made, o.newest().Add(most), "nor before the end of each session of before")
	checkView(w, j, nil)
	assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(by.list(queue)), "nothing of before is there")
	assert.Empty(w.t, by.value("slot/0"), "nor what was bound")
}

// givesUp opens a session with a context that ends during the quarantine. The error must name the time
// that is left, but for one in real time, where no server may have answered by then.
func (w *fixture) givesUp(c Client, d time.Duration, before driver.Instant) {
	w.t.Helper()
	_, err := w.tryOpen(w.within(d), c, false)
	require.ErrorIs(w.t, err, driver.ErrUnavailable)
	for !w.h.Virtual && !w.namesLeft(err, before) && w.now().Sub(before) < w.h.TTL*3/4 {
		_, err = w.tryOpen(w.within(d/4), c, false)
		require.ErrorIs(w.t, err, driver.ErrUnavailable)
	}
	assert.True(w.t, w.namesLeft(err, before), "the time that is left: %v", err)
}

// aDuration matches a time.Duration in a text.
var aDuration = regexp.MustCompile(`([0-9.]+(h|ms|µs|ns|m|s))+`)

// namesLeft reports whether the text of an error has the time that is left of a quarantine. It may be
// rounded to seconds.
func (w *fixture) namesLeft(err error, before driver.Instant) bool {
	least := w.h.TTL - w.now().Sub(before)
	return slices.ContainsFunc(aDuration.FindAllString(err.Error(), -1), func(text string) bool {
		d, err := time.ParseDuration(text)
		return err == nil && d > 0 && d >= least-time.Second && d <= w.h.TTL+time.Second
	})
}

func lifeGivenUp(w *fixture, way string) {
	most := w.lives()
	machine := metronome.Start()
	defer machine.Stop()
	w.exact(func() bool {
		c, began := w.client(), time.Now()
		before := w.newLife(way)
		w.givesUp(c, most/2, before)
		w.givesUp(c, most/4, before)
		o := w.openOn(c)
		took := w.now().Sub(before)
		require.NoError(w.t, o.end())
		return took-machine.Stalled(began) < most+most/4
	}, "all that time counts")
}

func lifeTwice(w *fixture, way string) {
	most := w.lives()
	c := w.client()
	before := w.newLife(way)
	w.givesUp(c, most/2, before)
	before = w.newLife(way)
	w.openOn(c).join(queue)
	assert.GreaterOrEqual(w.t, w.now(), before.Add(most))
}

func lifeTokens(w *fixture, way string) {
	w.lives()
	o := w.open()
	require.Zero(w.t, o.Since(), "the first life")
	last := max(o.join(queue).Entry.Token, o.join("elsewhere").Entry.Token)
	for range 2 {
		w.newLife(way)
		o = w.open()
		e := o.join(queue).Entry
		require.Greater(w.t, e.Token, last)
		require.GreaterOrEqual(w.t, o.Since(), last, "the tokens of before are not above it")
		require.Less(w.t, o.Since(), e.Token, "those of this life are")
		o.update(driver.UpdateRequest{Queue: queue, Entry: e.Ref, Ops: []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}})
		token := o.record(queue, "slot/0").Token
		require.Greater(w.t, token, e.Token, "that of a record, too")
		last = token
	}
}

func lifeLate(w *fixture, way string) {
	w.lives()
	o := w.open()
	o.uses()
	err := o.joinLate(kept()...)
	w.newLife(way)
	by := w.open()
	o.c.Deliver()
	by.nothing(0, "its session is over")
	w.settle(err)
	by.nothing(0, "settled")
}
