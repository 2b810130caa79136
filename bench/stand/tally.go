package stand

import "sync/atomic"

// Keepalive is the kind of requests that no lock waits for. They are not counted.
const Keepalive = -1

// A Tally counts the requests of one client, including retries, and the events that it
// receives.
type Tally struct {
	kinds    []string
	sent     []atomic.Int64
	periodic []int // the kinds that clients also send periodically
	requests atomic.Int64
	due      atomic.Int64 // answers that have not come yet
	trips    atomic.Int64
	events   atomic.Int64
	bytes    atomic.Int64
}

// NewTally returns a Tally for requests of these kinds. Clients also send requests of the
// kinds periodic when nothing has happened, or long after it has.
func NewTally(kinds []string, periodic ...int) *Tally {
	return &Tally{kinds: kinds, sent: make([]atomic.Int64, len(kinds)), periodic: periodic}
}

// Request counts one request, by the index of its kind. Call it before the request is sent,
// so that no answer can come first.
func (t *Tally) Request(kind int) {
	if kind == Keepalive {
		return
	}
	t.sent[kind].Add(1)
	t.requests.Add(1)
}

// Begin must be called before a request is sent that has an answer, and End when the answer
// has come.
func (t *Tally) Begin() {
	if t.due.Add(1) == 1 {
		t.trips.Add(1)
	}
}

// End is the counterpart of Begin.
func (t *Tally) End() { t.due.Add(-1) }

// Busy reports whether an answer has not come yet.
func (t *Tally) Busy() bool { return t.due.Load() > 0 }

// Trips returns how often the client began to wait for answers. Requests that are under way
// at the same time are one round trip; a request that follows from an answer is one more.
func (t *Tally) Trips() int64 { return t.trips.Load() }

// Event counts n events of a watch.
func (t *Tally) Event(n int) { t.events.Add(int64(n)) }

// Moved counts bytes, in either direction.
func (t *Tally) Moved(n int) { t.bytes.Add(int64(n)) }

// Requests returns the number of requests.
func (t *Tally) Requests() int64 { return t.requests.Load() }

// Prompted returns the number of requests without those of the periodic kinds. It does not
// change while nothing happens.
func (t *Tally) Prompted() int64 {
	n := t.requests.Load()
	for _, kind := range t.periodic {
		n -= t.sent[kind].Load()
	}
	return n
}

// Events returns the number of events.
func (t *Tally) Events() int64 { return t.events.Load() }

// Counts are the numbers of requests, events and bytes in some time.
type Counts struct {
	Kinds    []string // of requests
	Sent     []int64  // of each kind
	Requests int64
	Events   int64 // of watches
	Bytes    int64 // in both directions, with all overhead; 0 where they are not counted
}

// total returns the sums over all tallies.
func total(ts []*Tally) Counts {
	c := Counts{Kinds: ts[0].kinds, Sent: make([]int64, len(ts[0].kinds))}
	for _, t := range ts {
		for k := range c.Sent {
			c.Sent[k] += t.sent[k].Load()
		}
		c.Requests += t.requests.Load()
		c.Events += t.events.Load()
		c.Bytes += t.bytes.Load()
	}
	return c
}

// Since returns the difference to earlier counts.
func (c Counts) Since(earlier Counts) Counts {
	d := Counts{Kinds: c.Kinds, Sent: make([]int64, len(c.Sent))}
	for k := range d.Sent {
		d.Sent[k] = c.Sent[k] - earlier.Sent[k]
	}
	d.Requests, d.Events, d.Bytes = c.Requests-earlier.Requests, c.Events-earlier.Events, c.Bytes-earlier.Bytes
	return d
}
