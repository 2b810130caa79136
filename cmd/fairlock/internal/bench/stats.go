package bench

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// lockStats are the statistics of one lock. All clients are in this process, so grants
// are recorded in the order in which they were made.
type lockStats struct {
	name string

	mu       sync.Mutex
	grants   []int64 // of each client
	acquire  *hdrhistogram.Histogram
	handOff  *hdrhistogram.Histogram
	newest   session.Token
	holder   holder         // nil if no hold is known
	freed    driver.Instant // when the last holder began to release; 0 after the next grant
	disorder int64          // a token that is not above the one before
	overlaps int64          // a grant while another hold was good
	lost     int64
}

// holder is what lockStats uses of a hold.
type holder interface {
	Token() session.Token
	Remaining() time.Duration
}

func newStats(name string, clients int) *lockStats {
	return &lockStats{name: name, grants: make([]int64, clients), acquire: histogram(), handOff: histogram()}
}

// longest is the longest time that a histogram distinguishes.
const longest = time.Hour

// histogram returns a histogram of microseconds, with three significant digits.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest.Microseconds(), 3) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d, time.Microsecond), longest).Microseconds()) // the value is in the range
}

// granted records a grant: when it was requested, and when the client saw it.
func (l *lockStats) granted(client int, h holder, asked, at driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants[client]++
	record(l.acquire, at.Sub(asked))
	if l.holder != nil && l.holder.Remaining() > 0 {
		l.overlaps++
	}
	if h.Token() <= l.newest {
		l.disorder++
	}
	if l.freed != 0 && asked < l.freed { // the client was waiting then
		record(l.handOff, at.Sub(l.freed))
	}
	l.newest, l.holder, l.freed = h.Token(), h, 0
}

// releasing records that a client begins to release a hold.
func (l *lockStats) releasing(h holder, at driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == h { // otherwise it was lost, and the next one holds
		l.holder, l.freed = nil, at
	}
}

// released records the result of a release.
func (l *lockStats) released(err error) {
	if !errors.Is(err, session.ErrLost) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
}

// report sums up the statistics of all locks.
func report(o Options, locks []*lockStats, took time.Duration) schema.Bench {
	b := schema.NewBench()
	b.Locks, b.Clients, b.Hold, b.Duration = o.Locks, o.Clients, schema.Seconds(o.Hold), schema.Seconds(took)
	b.Fairness = 1
	acquire, handOff := histogram(), histogram()
	for _, l := range locks {
		acquire.Merge(l.acquire)
		handOff.Merge(l.handOff)
		b.Fairness = min(b.Fairness, jain(l.grants))
		b.OrderViolations += l.disorder
		b.Overlaps += l.overlaps
		b.Lost += l.lost
	}
	b.Acquisitions = acquire.TotalCount()
	b.PerSecond = float64(b.Acquisitions) / max(took, time.Millisecond).Seconds()
	b.Acquire, b.HandOff = spread(acquire), spread(handOff)
	return b
}

func spread(h *hdrhistogram.Histogram) schema.Spread {
	at := func(q float64) schema.Fine {
		return schema.Fine(time.Duration(h.ValueAtQuantile(q)) * time.Microsecond)
	}
	return schema.Spread{Count: h.TotalCount(), P50: at(50), P99: at(99), Max: schema.Fine(time.Duration(h.Max()) * time.Microsecond)}
}

// jain returns Jain's fairness index: 1 if all shares are equal, 1/n if one of n has
// everything, and 1 if all shares are 0.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
