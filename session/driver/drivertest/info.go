package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func infoSense(w *fixture) {
	b := w.client().Backend()
	info := b.Info()
	assert.NotEmpty(w.t, info.Service)
	assert.GreaterOrEqual(w.t, w.h.TTL, info.MinTTL)
	for _, ttl := range []time.Duration{info.MinTTL, w.h.TTL, time.Minute} {
		assert.Positive(w.t, info.Margin(ttl), "margin of %s", ttl)
		assert.Less(w.t, info.Margin(ttl), ttl, "margin of %s", ttl)
	}
	assert.Positive(w.t, info.MaxData)
	assert.Equal(w.t, w.h.Keeps, info.Keeps, "Harness.Keeps")
	for _, k := range []driver.Keep{info.Keeps.Exclusion, info.Keeps.Order, info.Keeps.Tokens} {
		assert.LessOrEqual(w.t, k, driver.UntilSplit)
	}
	before := info.Clock.Now()
	assert.LessOrEqual(w.t, before, b.Info().Clock.Now(), "the same clock, which never goes back")
	assert.Equal(w.t, info.Service, b.Info().Service, "Info never changes")
}

// openTooLong: a service that has lost data waits for as long as the longest TTL.
func openTooLong(w *fixture) {
	c := w.client()
	most := c.Backend().Info().MaxTTL
	if most == 0 {
		most = w.h.TTL // there is no limit, and so nothing to refuse
	} else {
		w.h.TTL = most + time.Millisecond
		_, err := w.tryOpen(w.soon(), c, false)
		require.ErrorIs(w.t, err, driver.ErrRefused)
	}
	w.h.TTL = most
	o := w.openOn(c)
	assert.Equal(w.t, most, o.renewed()[0].ttl)
}
