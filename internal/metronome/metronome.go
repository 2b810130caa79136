// Package metronome measures how long something takes in a test, without the time
// in which the machine did not let the test's process run. A bound on that time
// judges the code and not a machine with too much to do.
package metronome

import "time"

// tick is how often the metronome looks at the clock. A tick that comes later than
// twice this is a stall.
const tick = 5 * time.Millisecond

// Time calls f and returns how long it took, less the stalls.
func Time(f func()) time.Duration {
	began := time.Now()
	stop, stalled := make(chan struct{}), make(chan time.Duration, 1)
	go func() { stalled <- stalls(began, stop) }() // ends with stop
	func() {
		defer close(stop)
		f()
	}()
	return time.Since(began) - <-stalled
}

// stalls adds up for how long ticks were late, until stop.
func stalls(last time.Time, stop <-chan struct{}) (all time.Duration) {
	pace := time.NewTicker(tick)
	defer pace.Stop()
	for {
		ended := false
		select {
		case <-pace.C:
		case <-stop:
			ended = true
		}
		now := time.Now()
		if late := now.Sub(last) - tick; late > tick {
			all += late
		}
		if last = now; ended {
			return all
		}
	}
}
