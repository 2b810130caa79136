package driver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// loaded is a clock with a known Jitter.
type loaded struct {
	systemClock
	part time.Duration
}

func (l loaded) Jitter(d time.Duration) time.Duration { return d / l.part }

func TestJitterIsTheClocks(t *testing.T) {
	assert.Equal(t, 250*time.Millisecond, Jitter(loaded{part: 4}, time.Second))
}

func TestJitterIsAPart(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := Jitter(SystemClock(), 4)
		assert.GreaterOrEqual(t, d, time.Duration(0))
		seen[d] = true
	}
	assert.Len(t, seen, 4, "0 to 3, each of them")
}
