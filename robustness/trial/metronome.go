package trial

import (
	"time"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// beat tells when this process did not get to run. What is measured in hundredths of
// a second on a crowded machine would otherwise be blamed on the lock.
type beat struct{ *metronome.Metronome }

// stalls is how much of a time this process was kept from running.
func (b beat) stalls(from, to history.Instant) time.Duration {
	all, _ := b.Between(timeOf(from), timeOf(to))
	return all
}

// starved says that in a time this process did not get to run for so long that it
// is as if it had been stopped: nobody in it could be told anything.
func (b beat) starved(from, to history.Instant) bool {
	_, longest := b.Between(timeOf(from), timeOf(to))
	return longest > starving
}

// starving is a quarter of what is between the end of a context and the next
// grant, with the shortest margin there is.
const starving = TTL / 8

// ever is for how long in all this process was kept from running, and the longest
// time in which nothing ran.
func (b beat) ever() (all, longest time.Duration) { return b.Between(time.Time{}, time.Now()) }

// worst is the longest time in which nothing ran.
func (b beat) worst() time.Duration {
	_, longest := b.ever()
	return longest
}

// timeOf is an instant by the clock of this process.
func timeOf(at history.Instant) time.Time { return time.Now().Add(time.Duration(at - Now())) }
