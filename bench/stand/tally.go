package stand

import "sync/atomic"

// Keepalive is the kind of what is on nobody's path: sums leave it out.
const Keepalive = -1

// A Tally counts what one client sends, below its retries, and what it is told.
type Tally struct {
	kinds    []string
	sent     []atomic.Int64
	byClock  []int // the kinds that the clock sends, as well or alone
	requests atomic.Int64
	due      atomic.Int64 // answers
	trips    atomic.Int64
	events   atomic.Int64
	bytes    atomic.Int64
}

// NewTally counts requests of these kinds. Those of the kinds byClock are also
// sent when nothing has happened, or not for a while.
func NewTally(kinds []string, byClock ...int) *Tally {
	return &Tally{kinds: kinds, sent: make([]atomic.Int64, len(kinds)), byClock: byClock}
}

// Request counts one request, by the number of its kind. To be called before it
// is sent, so that no answer can come first.
func (t *Tally) Request(kind int) {
	if kind == Keepalive {
		return
	}
	t.sent[kind].Add(1)
	t.requests.Add(1)
}

// Begin and End are the times at which a request is sent that has an answer, and at which
// that came.
func (t *Tally) Begin() {
	if t.due.Add(1) == 1 {
		t.trips.Add(1)
	}
}

// End belongs to Begin.
func (t *Tally) End() { t.due.Add(-1) }

// Busy reports whether an answer is due.
func (t *Tally) Busy() bool { return t.due.Load() > 0 }

// Trips is how often the client began to wait for answers. Requests that were under way at
// once are one round trip; a request that was made from an answer is one more.
func (t *Tally) Trips() int64 { return t.trips.Load() }

// Event counts changes that a watch tells of.
func (t *Tally) Event(n int) { t.events.Add(int64(n)) }

// Moved counts bytes, in either direction.
func (t *Tally) Moved(n int) { t.bytes.Add(int64(n)) }

// Requests is how many there were.
func (t *Tally) Requests() int64 { return t.requests.Load() }

// Prompted is how many requests there were but for those of the kinds that the
// clock sends: when nothing happens, it stays what it is.
func (t *Tally) Prompted() int64 {
	n := t.requests.Load()
	for _, kind := range t.byClock {
		n -= t.sent[kind].Load()
	}
	return n
}

// Events is of how many changes watches have told.
func (t *Tally) Events() int64 { return t.events.Load() }

// Counts are what was sent in some time.
type Counts struct {
	Kinds    []string // of requests
	Sent     []int64  // of each kind
	Requests int64
	Bytes    int64 // both ways, everything included; 0 where they are not counted
}

// total is what all have sent.
func total(ts []*Tally) Counts {
	c := Counts{Kinds: ts[0].kinds, Sent: make([]int64, len(ts[0].kinds))}
	for _, t := range ts {
		for k := range c.Sent {
			c.Sent[k] += t.sent[k].Load()
		}
		c.Requests += t.requests.Load()
		c.Bytes += t.bytes.Load()
	}
	return c
}

// Since returns what was counted after earlier.
func (c Counts) Since(earlier Counts) Counts {
	d := Counts{Kinds: c.Kinds, Sent: make([]int64, len(c.Sent))}
	for k := range d.Sent {
		d.Sent[k] = c.Sent[k] - earlier.Sent[k]
	}
	d.Requests, d.Bytes = c.Requests-earlier.Requests, c.Bytes-earlier.Bytes
	return d
}
