package trial

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// metronome notes when this process did not get to run. What is measured in
// hundredths of a second on a crowded machine would otherwise be blamed on the
// lock.
type metronome struct {
	stop chan struct{}
	done chan struct{}

	mu   sync.Mutex
	late []stall
}

// stall is a time in which nothing ran.
type stall struct{ from, to history.Instant }

// stalled is how late a tick has to be to be noted.
const stalled = 5 * Poll

// newMetronome ticks in a goroutine until it is ended.
func newMetronome() *metronome {
	m := &metronome{stop: make(chan struct{}), done: make(chan struct{})}
	go m.tick()
	return m
}

func (m *metronome) tick() {
	defer close(m.done)
	pace := time.NewTicker(Poll)
	defer pace.Stop()
	last := Now()
	for {
		select {
		case <-m.stop:
			return
		case <-pace.C:
		}
		now := Now()
		if time.Duration(now-last) > stalled {
			m.mu.Lock()
			m.late = append(m.late, stall{last, now})
			m.mu.Unlock()
		}
		last = now
	}
}

// end ends the ticking. What was noted stays.
func (m *metronome) end() {
	close(m.stop)
	<-m.done
}

// stalls is how much of a time this process was kept from running.
func (m *metronome) stalls(from, to history.Instant) (d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.late {
		if from < s.to && s.from < to {
			d += time.Duration(min(s.to, to) - max(s.from, from))
		}
	}
	return d
}

// all is for how long in all this process was kept from running.
func (m *metronome) all() time.Duration { return m.stalls(math.MinInt64, math.MaxInt64) }

// starved says that in a time this process did not get to run for so long that it
// is as if it had been stopped: nobody in it could be told anything.
func (m *metronome) starved(from, to history.Instant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.late, func(s stall) bool {
		return from < s.to && s.from < to && time.Duration(s.to-s.from) > starving
	})
}

// starving is a quarter of what is between the end of a context and the next
// grant, with the shortest margin there is.
const starving = TTL / 8

// worst is the longest time in which nothing ran.
func (m *metronome) worst() (d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.late {
		d = max(d, time.Duration(s.to-s.from))
	}
	return d
}
