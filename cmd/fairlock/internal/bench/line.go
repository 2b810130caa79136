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

// line keeps the book of one lock. All its clients are in this process, so it sees
// each grant in the order in which they were made.
type line struct {
	name string

	mu       sync.Mutex
	grants   []int64 // of each client
	acquire  *hdrhistogram.Histogram
	handOff  *hdrhistogram.Histogram
	newest   session.Token
	holder   holder // nil if nobody holds that we know of
	freed    driver.Instant
	disorder int64 // a token that is not above the one before
	overlaps int64 // a grant while another hold was good
	lost     int64
}

// holder is what is asked of a hold.
type holder interface {
	Token() session.Token
	Valid() time.Duration
}

func newLine(name string, clients int) *line {
	return &line{name: name, grants: make([]int64, clients), acquire: histogram(), handOff: histogram()}
}

// longest is the longest time that is told apart.
const longest = time.Hour

// histogram is of microseconds, to three digits.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest.Microseconds(), 3) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d, time.Microsecond), longest).Microseconds()) // it is within
}

// granted enters a grant: asked for and seen at these moments.
func (l *line) granted(client int, h holder, asked, at driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants[client]++
	record(l.acquire, at.Sub(asked))
	if l.holder != nil && l.holder.Valid() > 0 {
		l.overlaps++
	}
	if h.Token() <= l.newest {
		l.disorder++
	}
	if l.freed != 0 && asked < l.freed { // it was waiting then
		record(l.handOff, at.Sub(l.freed))
	}
	l.newest, l.holder, l.freed = h.Token(), h, 0
}

// releasing enters that a hold is about to be given back.
func (l *line) releasing(h holder, at driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == h { // or it was lost, and the next one holds
		l.holder, l.freed = nil, at
	}
}

// released enters how that ended.
func (l *line) released(err error) {
	if !errors.Is(err, session.ErrLost) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
}

// report sums the books up.
func report(o Options, lines []*line, took time.Duration) schema.Bench {
	b := schema.NewBench()
	b.Locks, b.Clients, b.Hold, b.Duration = o.Locks, o.Clients, schema.Seconds(o.Hold), schema.Seconds(took)
	b.Fairness = 1
	acquire, handOff := histogram(), histogram()
	for _, l := range lines {
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

// jain is Jain's fairness index of how much each has got: 1 if all have the same,
// 1/n if one of n has all. Where nobody has got anything, all have the same.
func jain(got []int64) float64 {
	var sum, squares float64
	for _, x := range got {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}
