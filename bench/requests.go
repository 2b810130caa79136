package main

import (
	"context"
)

const (
	metricPerLock  = "requests per acquisition"
	metricBetween  = "requests from release to grant" // of the two clients involved
	metricMost     = "most requests from release to grant"
	metricEveryone = "requests from release to grant, all clients"
)

// runRequests counts what clients send: everybody has a client, and holds long
// enough for the others to finish what an event made them do.
func runRequests(ctx context.Context, b *bench) error {
	p := &b.plan.requests
	cs := everybody()
	return b.on(ctx, single, nil, func(s *stand) error {
		k := key{Scenario: "requests", Cluster: single, Size: p.size}
		err := b.rounds(ctx, cs, func(c contestant) error {
			return s.with(ctx, c, p.size+1, p.size+1, func(t *team) error {
				q := queue{name: b.name("requests"), waiters: p.size, settle: b.plan.line.settle, hold: p.hold}
				r, err := q.run(ctx, s, t)
				if err != nil {
					return err
				}
				k.Contestant = c.name
				b.countRequests(k, r)
				return nil
			})
		})
		for _, k.Metric = range []string{metricBetween, metricMost, metricPerLock} {
			b.told(k, cs)
		}
		return err
	})
}

// countRequests records one line.
func (b *bench) countRequests(k key, r queueResult) {
	var own, everyone, most float64
	for _, h := range r.handOffs {
		own += float64(h.own)
		everyone += float64(h.everyone)
		most = max(most, float64(h.own))
	}
	n := float64(len(r.handOffs))
	grants := n + 1 // the first holder's, too
	for _, m := range []struct {
		metric string
		value  float64
	}{
		{metricBetween, own / n},
		{metricMost, most},
		{metricEveryone, everyone / n},
		{metricPerLock, float64(r.sent.sum()) / grants},
	} {
		k.Metric = m.metric
		b.record.add(k, count, m.value)
	}
	b.recordKinds(k, r.sent, grants)
}

// recordKinds records of what kinds the requests of an acquisition were.
func (b *bench) recordKinds(k key, sent counts, acquisitions float64) {
	for kind, n := range sent {
		if requestKind(kind) != keepalive {
			k.Metric = "… " + requestKind(kind).String()
			b.record.add(k, count, float64(n)/acquisitions)
		}
	}
}
