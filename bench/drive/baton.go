package drive

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// A HandOff is what passes between two holders.
type HandOff struct {
	Took     time.Duration // from the start of the release until the next Lock returned
	Own      int64         // requests meanwhile of the two clients involved
	Everyone int64         // requests meanwhile of all clients
}

// A baton notes down how a lock goes from hand to hand. At any time one
// contender has the lock, but they meet only at the server, which the race
// detector cannot see: hence the mutex.
type baton struct {
	t     *stand.Team
	name  string    // of the lock
	began time.Time // when the first waiter joined
	want  int       // so many hand-offs count

	mu       sync.Mutex
	holder   int
	sent     []int64 // requests of each client, when the release began
	released time.Time
	first    time.Time // the first release
	last     time.Time // the last grant
	handOffs []HandOff
	moved    stand.Counts // by all, from the first release to the last grant
	over     bool
}

// release notes that contender i starts to give back.
func (b *baton) release(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder, b.sent = i, b.sent[:0]
	for _, c := range b.t.Tallies {
		b.sent = append(b.sent, c.Requests())
	}
	if b.first.IsZero() {
		b.moved = b.t.Sent()
	}
	b.released = time.Now()
	if b.first.IsZero() {
		b.first = b.released
	}
}

// granted notes that the Lock of contender i returned at that time. It says
// whether this was the last hand-off that counts.
func (b *baton) granted(i int, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	h := HandOff{Took: at.Sub(b.released)}
	from, to := b.holder%len(b.t.Tallies), i%len(b.t.Tallies)
	for j, c := range b.t.Tallies {
		n := c.Requests() - b.sent[j]
		h.Everyone += n
		if j == from || j == to {
			h.Own += n
		}
	}
	b.handOffs, b.last = append(b.handOffs, h), at
	if b.over = len(b.handOffs) >= b.want; b.over {
		b.moved = b.t.Sent().Since(b.moved)
	}
	return b.over
}

// stopped says whether the last hand-off that counts is over.
func (b *baton) stopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
