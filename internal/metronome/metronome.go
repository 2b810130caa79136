// Package metronome records when the machine did not let a test's process run. A
// test that checks a short time subtracts those stalls, so that it judges the code
// and not a busy machine.
package metronome

import (
	"sync"
	"time"
)

// tick is how often the metronome reads the clock. A tick that comes later than
// twice this is a stall.
const tick = 5 * time.Millisecond

// Metronome records stalls until it is stopped.
type Metronome struct {
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	stalls []stall
}

// stall is a time in which the process did not run. late is its length less one
// tick.
type stall struct {
	from, to time.Time
	late     time.Duration
}

// Start starts a Metronome, with a goroutine that ends with Stop.
func Start() *Metronome {
	m := &Metronome{stop: make(chan struct{}), done: make(chan struct{})}
	go m.run(time.Now())
	return m
}

func (m *Metronome) run(last time.Time) {
	defer close(m.done)
	pace := time.NewTicker(tick)
	defer pace.Stop()
	for ended := false; !ended; {
		select {
		case <-pace.C:
		case <-m.stop:
			ended = true
		}
		now := time.Now()
		late := now.Sub(last) - tick
		if late > tick {
			m.mu.Lock()
			m.stalls = append(m.stalls, stall{last, now, late})
			m.mu.Unlock()
		}
		last = now
	}
}

// Stop ends the goroutine. The recorded stalls stay.
func (m *Metronome) Stop() {
	close(m.stop)
	<-m.done
}

// Stalled returns how long the process did not run since then.
func (m *Metronome) Stalled(then time.Time) (all time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stalls {
		if s.to.After(then) {
			all += s.late
		}
	}
	return all
}

// Between returns how long the process did not run between two times, and the
// longest stall that overlaps that time.
func (m *Metronome) Between(from, to time.Time) (all, longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stalls {
		if from.Before(s.to) && s.from.Before(to) {
			stalled := s.to.Sub(s.from)
			longest = max(longest, stalled)
			all += stalled - max(0, from.Sub(s.from)) - max(0, s.to.Sub(to))
		}
	}
	return all, longest
}

// Stopwatch measures the time since Begin, less the stalls.
type Stopwatch struct {
	m     *Metronome
	began time.Time
}

// Begin starts a Stopwatch that ends with the test.
func Begin(t interface{ Cleanup(func()) }) *Stopwatch {
	s := &Stopwatch{Start(), time.Now()}
	t.Cleanup(s.m.Stop)
	return s
}

// Passed returns the time since Begin in which the process ran.
func (s *Stopwatch) Passed() time.Duration { return time.Since(s.began) - s.Stalled() }

// Stalled returns the time since Begin in which the process did not run.
func (s *Stopwatch) Stalled() time.Duration { return s.m.Stalled(s.began) }

// Quickest calls f until it takes less than limit, but at most ten times, and returns the
// shortest time. It is for what other processes do, such as a server: their stalls are not
// those of this one, so a test may judge only what they can do.
func Quickest(limit time.Duration, f func()) time.Duration {
	shortest := Time(f)
	for range 9 {
		if shortest < limit {
			break
		}
		shortest = min(shortest, Time(f))
	}
	return shortest
}

// Time calls f and returns how long it took, less the stalls.
func Time(f func()) time.Duration {
	m, began := Start(), time.Now()
	func() {
		defer m.Stop()
		f()
	}()
	return time.Since(began) - m.Stalled(began)
}
