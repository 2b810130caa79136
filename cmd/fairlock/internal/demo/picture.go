package demo

import (
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
)

// model is what the picture shows now.
func (s *stage) model() *view.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := stamp.Now()
	m := &view.Model{
		Terms: s.terms, Lock: lockName, TTL: ttl, Elapsed: now.Sub(s.start), Expected: expected,
		Caption: s.caption, Highest: s.ledger.Highest(), Refused: s.ledger.Refused(),
		Log: slices.Clone(s.notes), Grants: len(s.grants), Handoffs: s.measured, P50: s.p50, P99: s.p99,
	}
	m.Writes, _ = s.ledger.Last(3)
	if n := len(m.Writes); n > 0 {
		m.Balance = m.Writes[n-1].Balance
	}
	seen := map[string]bool{}
	for _, x := range s.line {
		seen[x.meta.Label] = true
		m.Queue = append(m.Queue, s.show(x, now))
	}
	for _, a := range s.cast {
		if a.state == view.Stopped && !seen[a.name] {
			m.Missing = append(m.Missing, fmt.Sprintf("%-5s %8d  %6d  STOPPED, and does not know that it lost its place", a.name, a.pid, s.stop.Token))
		}
	}
	return m
}

// show is one entry as the picture shows it. That it holds is shown when its
// worker says so, and not because nobody stands ahead of it. The caller holds
// s.mu.
func (s *stage) show(x spot, now stamp.Stamp) view.Entry {
	p := view.Entry{Worker: x.meta.Label, PID: x.meta.PID, Token: x.token, Since: now.Sub(x.since)}
	if i, ok := s.byToken[x.token]; ok && s.grants[i].How == check.Open {
		p.State, p.Since = view.Holds, now.Sub(s.grants[i].At)
	}
	if a := s.cast[x.meta.Label]; a != nil && (a.state == view.Killed || a.state == view.Stopped) {
		p.State, p.Since = a.state, now.Sub(a.since)
	}
	return p
}

// measure works out the figures that the picture shows. It is called from time
// to time: sorting all grants for every picture would take the workers' time.
func (s *stage) measure() {
	h := s.history()
	d := check.Handoffs(h.Grants)
	p50, p99 := check.Quantiles(d)
	s.change(func() { s.measured, s.p50, s.p99 = len(d), p50, p99 })
}
