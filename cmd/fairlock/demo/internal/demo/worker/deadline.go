package worker

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

// readEvery is how often a worker reads its deadline during a job.
const readEvery = 25 * time.Millisecond

// deadline knows until when a hold lasted. A worker whose process stood still past the
// deadline can report the loss only when it goes on, and another worker may hold by then. But
// it did nothing meanwhile, and every reading since then shows that the hold is over. So the
// time in which it stood still does not count.
type deadline struct {
	mu   sync.Mutex
	at   stamp.Stamp // as of the last reading at which the hold was not over; at first, of the grant
	over stamp.Stamp // the first reading at which it was over; 0 if there is none
}

// read takes in what Hold.Remaining returned. It returns until when the hold has lasted, which
// is now while it is not over.
func (d *deadline) read(now stamp.Stamp, left time.Duration) stamp.Stamp {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left > 0 {
		d.at = now + stamp.Stamp(left)
		return now
	}
	if d.over == 0 {
		d.over = now
	}
	return min(now, d.at+now-d.over)
}
