package main

import (
	"context"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricPerLock       = "requests per acquisition"
	metricEventsPerLock = "events per acquisition"
	metricBetween       = "requests from release to grant" // of the two clients involved
	metricMost          = "most requests from release to grant"
	metricEveryone      = "requests from release to grant, all clients"
	metricPerHandOff    = "requests per hand-off, all clients" // from one release to the next
	metricBytes         = "bytes per hand-off, all clients"    // in both directions
)

// runRequests counts requests. Each contender has a client, and holds long enough for the others to
// finish their requests after an event.
func runRequests(ctx context.Context, b *bench) error {
	p := &b.plan.requests
	cs := b.locks()
	return b.onServers(ctx, setting{Kind: stand.Single}, func(s *site) error {
		k := key{Scenario: "requests", Cluster: stand.Single, Size: p.size}
		err := rounds(ctx, b.plan.rounds, cs, func(c stand.Contestant) error {
			return withCrew(ctx, s, drive.Opening{Contestant: c, N: p.size + 1, Clients: p.size + 1}, func(crew drive.Crew) error {
				q := drive.Line{Waiters: p.size, Settle: b.plan.line.settle, Hold: p.hold}
				r, err := crew.Do(ctx, drive.Job{Name: b.name("requests"), Line: &q})
				if err != nil {
					return err
				}
				k.Contestant = c.Name
				b.countRequests(k, r.Line)
				return nil
			})
		})
		for _, k.Metric = range []string{metricBetween, metricMost, metricPerLock, metricBytes} {
			b.logMedians(k, cs)
		}
		return err
	})
}

// countRequests records the requests of one queue.
func (b *bench) countRequests(k key, r drive.LineResult) {
	var own, everyone, most float64
	for _, h := range r.HandOffs {
		own += float64(h.Own)
		everyone += float64(h.Everyone)
		most = max(most, float64(h.Own))
	}
	n := float64(len(r.HandOffs))
	for _, m := range []struct {
		metric string
		value  float64
	}{
		{metricBetween, own / n},
		{metricMost, most},
		{metricEveryone, everyone / n},
	} {
		k.Metric = m.metric
		b.record.add(k, count, m.value)
	}
	b.recordMoved(k, r.Moved, n)
	b.recordSent(k, r.Sent, n+1) // with that of the first holder
}

// recordMoved records the requests and bytes of a hand-off, of all clients together.
func (b *bench) recordMoved(k key, moved stand.Counts, handOffs float64) {
	if !b.counts {
		return
	}
	k.Metric = metricPerHandOff
	b.record.add(k, count, float64(moved.Requests)/handOffs)
	if moved.Bytes > 0 {
		k.Metric = metricBytes
		b.record.add(k, octets, float64(moved.Bytes)/handOffs)
	}
}

// recordSent records the requests of an acquisition, also for each kind of request, and the events
// that clients receive meanwhile.
func (b *bench) recordSent(k key, sent stand.Counts, acquisitions float64) {
	if !b.counts {
		return
	}
	k.Metric = metricPerLock
	b.record.add(k, count, float64(sent.Requests)/acquisitions)
	for i, n := range sent.Sent {
		k.Metric = "… " + sent.Kinds[i]
		b.record.add(k, count, float64(n)/acquisitions)
	}
	k.Metric = metricEventsPerLock
	b.record.add(k, count, float64(sent.Events)/acquisitions)
}
