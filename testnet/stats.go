package testnet

import "sync/atomic"

// Stats are counts since New. A test that imposes a fault reads them to be sure
// that the fault met anything.
type Stats struct {
	Accepted int64 // connections accepted, the refused ones among them
	Refused  int64 // connections reset because of Refuse
	Failed   int64 // connections reset because the server refused them
	Open     int   // connections there are now

	Requests, Replies Flow // by direction
}

// Flow counts the bytes of one direction.
type Flow struct {
	Passed  int64 // handed on
	Pieces  int64 // in how many pieces they were handed on: of a client that waits for each reply, one for each request
	Dropped int64 // thrown away by Drop
	Waiting int64 // inside the proxy now: held, not yet due, or for a slow reader
}

type counters struct {
	accepted, refused, failed atomic.Int64
	flow                      [2]struct{ passed, pieces, dropped, waiting atomic.Int64 }
}

// Stats returns the counts now. They are read one after the other, so they fit
// together only while nothing moves.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	open := len(p.conns)
	p.mu.Unlock()
	return Stats{
		Accepted: p.stats.accepted.Load(),
		Refused:  p.stats.refused.Load(),
		Failed:   p.stats.failed.Load(),
		Open:     open,
		Requests: p.stats.read(0),
		Replies:  p.stats.read(1),
	}
}

func (c *counters) read(i int) Flow {
	f := &c.flow[i]
	return Flow{Passed: f.passed.Load(), Pieces: f.pieces.Load(), Dropped: f.dropped.Load(), Waiting: f.waiting.Load()}
}
