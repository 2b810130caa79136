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

func TestTheQuickestOfTenCallsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		call := func() {
			calls++
			time.Sleep(time.Second / time.Duration(calls))
		}

		assert.Equal(t, time.Second/3, Quickest(400*time.Millisecond, call))
		assert.Equal(t, 3, calls)
		assert.Equal(t, time.Second/13, Quickest(0, call))
	})
}

func TestAStopwatchMeasuresWhatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Begin(t)
		time.Sleep(time.Second)
		assert.Equal(t, time.Second, s.Passed())
		assert.Zero(t, s.Stalled())
	})
}

func TestStallsAreTheLatenessOfTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for late, want := range map[time.Duration]time.Duration{time.Second: time.Second - tick, 2 * tick: 0} {
			m := &Metronome{stop: make(chan struct{}), done: make(chan struct{})}
			go m.run(began.Add(-late))
			m.Stop()
			assert.Equal(t, want, m.Stalled(began.Add(-late)))
			assert.Zero(t, m.Stalled(began), "stalls before that time do not count")
		}
	})
}

func TestBetweenCountsThePartOfStallsThatIsInside(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	m := &Metronome{stalls: []stall{{from: at(100), to: at(200)}, {from: at(300), to: at(2000)}}}
	for _, c := range []struct {
		from, to     time.Time
		all, longest time.Duration
	}{
		{at(0), at(100), 0, 0},
		{at(120), at(180), 60 * time.Millisecond, 100 * time.Millisecond},
		{at(150), at(400), 150 * time.Millisecond, 1700 * time.Millisecond},
		{time.Time{}, at(9000), 1800 * time.Millisecond, 1700 * time.Millisecond},
	} {
		all, longest := m.Between(c.from, c.to)
		assert.Equal(t, c.all, all)
		assert.Equal(t, c.longest, longest)
	}
}
