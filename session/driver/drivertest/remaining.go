package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// remaining: any client sees from the remaining TTL whether the owner of an entry lives, unless the
// service reports it to none.
func remaining() []testCase {
	return append(
		over("ItReturnsWhileCut%v", fault.Directions(), remainingCut),
		testCase{"ItIsNearTheTTLOfALiveSessionOnly", remainingFalls},
	)
}

func remainingFalls(w *fixture) {
	w.expires()
	by := w.client()
	before := by.Requests()
	_, err := by.Backend().RemainingTTL(w.soon(), "none")
	if errors.Is(err, errors.ErrUnsupported) {
		assert.Equal(w.t, before, by.Requests(), "nothing is sent")
		return
	}
	require.ErrorIs(w.t, err, driver.ErrSessionOver)
	var id string
	half := func() (lower, over bool) { // a client that renews several times in each TTL stays in the upper one
		left, err := by.Backend().RemainingTTL(w.soon(), id)
		assert.LessOrEqual(w.t, left, w.h.TTL)
		if over = errors.Is(err, driver.ErrSessionOver); over {
			assert.Zero(w.t, left)
			return false, true
		}
		require.NoError(w.t, err)
		return left < w.h.TTL/2, false
	}
	w.exact(func() (fell bool) { // a machine that stands still renews late, and misses the fall
		o := w.open()
		defer func() { require.NoError(w.t, o.end()) }()
		o.join(queue)
		id = o.read(driver.ReadRequest{Queue: queue, Detail: true}).Entries[0].Session
		for range 3 {
			time.Sleep(w.h.TTL / 2) // the claim is about time
			if lower, over := half(); lower || over {
				return false
			}
		}
		o.Abandon()
		over := false
		w.eventually(func() bool {
			fell, over = half()
			return fell || over
		}, "it falls")
		return fell
	}, "it is in the upper half of the TTL while it is renewed, and falls before it is over")
	for _, none := range []string{id, ""} {
		left, err := by.Backend().RemainingTTL(w.soon(), none)
		require.ErrorIs(w.t, err, driver.ErrSessionOver, "session %q", none)
		assert.Zero(w.t, left)
	}
}

func remainingCut(w *fixture, d fault.Direction) {
	o := w.open()
	o.c.Cut(d)
	ctx, stop := context.WithTimeoutCause(w.ctx, w.short/50, errOfCaller)
	defer stop()
	var err error
	w.prompt(o.c, "RemainingTTL", ctx.Done(), func() { _, err = o.c.Backend().RemainingTTL(ctx, o.ID()) })
	if !errors.Is(err, errors.ErrUnsupported) {
		assert.ErrorIs(w.t, err, driver.ErrUnavailable, "no server answered")
		assert.NotErrorIs(w.t, err, errOfCaller, "a caller's cause is no answer")
	}
}
