package testnet

import (
	"time"

	"github.com/fairlock/fairlock/fault"
)

// mode is what happens to the bytes of one direction.
type mode uint8

const (
	flow mode = iota
	hold
	drop
)

// faults are the faults in effect, by direction: 0 is requests, 1 is replies.
type faults struct {
	mode  [2]mode
	delay [2]time.Duration
}

func (f *faults) set(dir fault.Direction, m mode) {
	for i := range f.mode {
		if dir&(1<<i) != 0 {
			f.mode[i] = m
		}
	}
}

// Hold keeps back the bytes of a direction, on all connections there are and on
// new ones, until Heal. Bytes that reach the proxy after Hold has returned do
// not pass; a chunk that is just being written may. The ends of connections are
// held back as well, for a partition hides those too. A connection made while
// requests are held is accepted, for the kernel does that unasked, but it reaches the
// server only after Heal. Up to 8 MiB per connection are kept, then the sender
// is slowed down.
func (p *Proxy) Hold(dir fault.Direction) {
	p.change(func() { p.all.set(dir, hold) })
}

// HoldFrom is Hold for the connections with this label only.
func (p *Proxy) HoldFrom(label string, dir fault.Direction) {
	p.change(func() { p.labelled(label).set(dir, hold) })
}

// Drop reads the bytes of a direction and throws them away, and those that were
// held back too, on all connections there are and on new ones, until Heal. TCP
// knows no gaps, so a connection that has lost anything is reset by Heal.
func (p *Proxy) Drop(dir fault.Direction) {
	p.change(func() { p.all.set(dir, drop) })
}

// Heal ends Hold and Drop: what was held is delivered in order, connections that
// lost bytes are reset. Connections that HoldFrom holds stay held.
func (p *Proxy) Heal(dir fault.Direction) {
	p.change(func() { p.all.set(dir, flow) })
}

// HealFrom ends HoldFrom. What Hold holds stays held.
func (p *Proxy) HealFrom(label string, dir fault.Direction) {
	p.change(func() { p.labelled(label).set(dir, flow) })
}

// Delay lets every byte of a direction that is read from now on pass d later; 0
// ends it. Order and throughput are kept, the latter up to 8 MiB per d.
func (p *Proxy) Delay(dir fault.Direction, d time.Duration) {
	p.change(func() {
		for i := range p.all.delay {
			if dir&(1<<i) != 0 {
				p.all.delay[i] = d
			}
		}
	})
}

// Refuse sets whether the proxy resets new connections as soon as it has accepted them.
// Present connections stay.
func (p *Proxy) Refuse(refuse bool) {
	p.change(func() { p.refuse = refuse })
}

// Reset ends all present connections with a TCP reset on both sides, held bytes
// and all. New ones are welcome.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
	}
}

// change applies f and makes every connection check the faults again.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) labelled(label string) *faults {
	f := p.from[label]
	if f == nil {
		f = new(faults)
		p.from[label] = f
	}
	return f
}

// mode returns what to do with the bytes of a direction, and a channel that is closed
// when the answer may have changed. The worst fault wins.
func (p *Proxy) mode(label string, i int) (mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.all.mode[i]
	f := p.from[label]
	if f != nil {
		m = max(m, f.mode[i])
	}
	return m, p.changed
}

func (p *Proxy) delay(i int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.delay[i]
}
