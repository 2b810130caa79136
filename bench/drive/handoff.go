package drive

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// A HandOff is what was measured between two holders.
type HandOff struct {
	Took     time.Duration // from the start of the release until the next Lock returned
	Own      int64         // requests of the two clients involved, in that time
	Everyone int64         // requests of all clients, in that time
}

// A recorder records the hand-offs of a lock. At any time one contender has the lock. But the
// race detector does not see the server, which orders them, so the recorder has a mutex.
type recorder struct {
	t     *stand.Team
	name  string    // of the lock
	began time.Time // when the waiters began to join
	want  int       // the number of hand-offs that count

	mu       sync.Mutex
	holder   int
	sent     []int64 // requests of each client, when the release began
	released time.Time
	first    time.Time // the first release
	last     time.Time // the last grant
	handOffs []HandOff
	moved    stand.Counts // by all clients, from the first release to the last grant
	over     bool
}

// release records that contender i begins to release.
func (rec *recorder) release(i int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.holder, rec.sent = i, rec.sent[:0]
	for _, c := range rec.t.Tallies {
		rec.sent = append(rec.sent, c.Requests())
	}
	if rec.first.IsZero() {
		rec.moved = rec.t.Sent()
	}
	rec.released = time.Now()
	if rec.first.IsZero() {
		rec.first = rec.released
	}
}

// granted records that Lock of contender i returned at that time. It reports whether this was
// the last hand-off that counts.
func (rec *recorder) granted(i int, at time.Time) bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return false
	}
	h := HandOff{Took: at.Sub(rec.released)}
	from, to := rec.holder%len(rec.t.Tallies), i%len(rec.t.Tallies)
	for j, c := range rec.t.Tallies {
		n := c.Requests() - rec.sent[j]
		h.Everyone += n
		if j == from || j == to {
			h.Own += n
		}
	}
	rec.handOffs, rec.last = append(rec.handOffs, h), at
	rec.over = len(rec.handOffs) >= rec.want
	if rec.over {
		rec.moved = rec.t.Sent().Since(rec.moved)
	}
	return rec.over
}

// isOver reports whether the last hand-off that counts is over.
func (rec *recorder) isOver() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.over
}
