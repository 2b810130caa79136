package driver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBackoffDoublesUpToTheMost(t *testing.T) {
	b := Backoff{Least: 10 * time.Millisecond, Most: 35 * time.Millisecond}
	next := func() time.Duration { return b.Next(SystemClock()) / time.Millisecond }

	assert.Equal(t, []time.Duration{10, 20, 35, 35}, []time.Duration{next(), next(), next(), next()})
	b.Reset()
	assert.EqualValues(t, 10, next())
}

func TestSpreadBackoffPausesForHalfAtLeast(t *testing.T) {
	for range 100 {
		b := Backoff{Least: 10 * time.Millisecond, Most: 10 * time.Millisecond, Spread: true}
		d := b.Next(SystemClock())
		assert.GreaterOrEqual(t, d, 5*time.Millisecond)
		assert.Less(t, d, 10*time.Millisecond)
	}
}
