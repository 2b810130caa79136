package queue_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// counted is a backend whose clock counts the timers that fire.
type counted struct {
	driver.Backend
	fired *atomic.Int64
}

func (c counted) Info() driver.Info {
	info := c.Backend.Info()
	info.Clock = countedClock{info.Clock, c.fired}
	return info
}

type countedClock struct {
	driver.Clock
	fired *atomic.Int64
}

func (c countedClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return c.Clock.AfterFunc(d, func() {
		c.fired.Add(1)
		f()
	})
}

// TestNoTimerFiresForAHoldThatIsOver: what is done for a hold that lasts is done at the end of
// a time that is the same for all, so a timer for each would fire for each.
func TestNoTimerFiresForAHoldThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired atomic.Int64
		backend := counted{mem().New(memory.Options{}, nil).NewClient().Backend(), &fired}
		s, err := queue.Core().Open(t.Context(), backend, nil)
		require.NoError(t, err)
		const cycles = 1000
		for range cycles {
			h, err := queue.Acquire(t.Context(), s, queue.Request{Name: "n", Kind: "test", Rule: rule.Mutex()})
			require.NoError(t, err)
			require.NoError(t, h.Unlock())
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, fired.Load(), int64(cycles/10))
		require.NoError(t, s.Close())
	})
}
