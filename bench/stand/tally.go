package stand

import "sync/atomic"

// Keepalive is the kind of what is on nobody's path: sums leave it out.
const Keepalive = -1

// A Tally counts what one client sends, below its retries.
type Tally struct {
	kinds    []string
	sent     []atomic.Int64
	requests atomic.Int64
	bytes    atomic.Int64
}

// NewTally counts requests of these kinds.
func NewTally(kinds []string) *Tally {
	return &Tally{kinds: kinds, sent: make([]atomic.Int64, len(kinds))}
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

// Moved counts bytes, in either direction.
func (t *Tally) Moved(n int) { t.bytes.Add(int64(n)) }

// Requests is how many there were.
func (t *Tally) Requests() int64 { return t.requests.Load() }

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
