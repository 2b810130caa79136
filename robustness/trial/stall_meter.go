package trial

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// stallMeter measures when this process did not get to run. Without it, delays of
// hundredths of a second on a busy machine would be blamed on the lock.
type stallMeter struct{ *metronome.Metronome }

// stalls returns for how long in all this process did not get to run, from one instant
// to another.
func (m stallMeter) stalls(from, to history.Instant) time.Duration {
	all, _ := m.Between(timeOf(from), timeOf(to))
	return all
}

// starved reports whether, from one instant to another, this process did not get to run
// for so long that it counts as stopped: no client in it could be notified.
func (m stallMeter) starved(from, to history.Instant) bool {
	_, longest := m.Between(timeOf(from), timeOf(to))
	return longest > starvedAfter
}

// await waits until c is closed, for at most bound from since on, not counting the time in
// which nothing ran, and reports whether c is closed. The bound may grow meanwhile.
func (m stallMeter) await(ctx context.Context, c <-chan struct{}, since history.Instant, bound func() time.Duration) bool {
	for ctx.Err() == nil {
		now := Now()
		left := bound() + m.stalls(since, now) - time.Duration(now-since)
		if left <= 0 || await(ctx, c, left) {
			break
		}
	}
	return isClosed(c)
}

// starvedAfter is half of the margin on ZooKeeper, which is the least time there between the
// end of a hold's context and the next grant. On etcd the margin is longer.
const starvedAfter = TTL / 20

// total returns for how long in all this process did not get to run, and the longest time
// in which nothing ran.
func (m stallMeter) total() (all, longest time.Duration) { return m.Between(time.Time{}, time.Now()) }

// longest returns the longest time in which nothing ran.
func (m stallMeter) longest() time.Duration {
	_, longest := m.total()
	return longest
}

// timeOf converts an instant to a time of this process's clock.
func timeOf(at history.Instant) time.Time { return time.Now().Add(time.Duration(at - Now())) }
