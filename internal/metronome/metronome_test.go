package metronome

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimeIsThatOfTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, time.Second, Time(func() { time.Sleep(time.Second) }))
		assert.Zero(t, Time(func() {}))
	})
}

func TestStallsAreWhatTicksWereLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for late, want := range map[time.Duration]time.Duration{time.Second: time.Second - tick, 2 * tick: 0} {
			m := &Metronome{stop: make(chan struct{}), done: make(chan struct{})}
			go m.run(began.Add(-late))
			m.Stop()
			assert.Equal(t, want, m.Stalled(began.Add(-late)))
			assert.Zero(t, m.Stalled(began), "what was before")
		}
	})
}
