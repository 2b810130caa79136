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
		stop := make(chan struct{})
		close(stop)
		assert.Equal(t, time.Second-tick, stalls(time.Now().Add(-time.Second), stop))
		assert.Zero(t, stalls(time.Now().Add(-2*tick), stop))
	})
}
