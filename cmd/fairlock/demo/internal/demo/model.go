package demo

import (
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
)

// model returns what the picture shows now.
func (s *state) model() *view.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := stamp.Now()
	m := &view.Model{
		Terms: s.terms, Lock: lockName, TTL: ttl, Elapsed: now.Sub(s.start), Expected: expected,
		Caption: s.caption, Highest: s.ledger.Highest(), Refused: s.ledger.Refused(),
		Log: slices.Clone(s.notes), Grants: len(s.grants), Handoffs: s.measured, P50: s.p50, P99: s.p99,
	}
	m.Writes, _ = s.ledger.Last(3)
	n := len(m.Writes)
	if n > 0 {
		m.Balance = m.Writes[n-1].Balance
	}
	seen := map[string]bool{}
	for _, x := range s.queue {
		seen[x.meta.Label] = true
		m.Queue = append(m.Queue, s.viewEntry(x, now))
	}
	for _, w := range s.workers {
		if w.state == view.Stopped && !seen[w.name] {
			m.Missing = append(m.Missing, fmt.Sprintf("%-5s %8d  %6d  STOPPED, and does not know that it lost its place", w.name, w.pid, s.stop.Token))
		}
	}
	return m
}

// viewEntry returns an entry for the picture. The entry holds if its worker has reported
// so; to be the first is not enough. The caller holds s.mu.
func (s *state) viewEntry(x queued, now stamp.Stamp) view.Entry {
	p := view.Entry{Worker: x.meta.Label, PID: x.meta.PID, Token: x.token, Since: now.Sub(x.since)}
	if i, ok := s.byToken[x.token]; ok && s.grants[i].How == check.Open {
		p.State, p.Since = view.Holds, now.Sub(s.grants[i].At)
	}
	w := s.workers[x.meta.Label]
	if w != nil && (w.state == view.Killed || w.state == view.Stopped) {
		p.State, p.Since = w.state, now.Sub(w.since)
	}
	return p
}

// measure calculates the figures of the picture. It is not called for every frame, because
// sorting all grants each time would slow the workers down.
func (s *state) measure() {
	h := s.history()
	d := check.Handoffs(h.Grants)
	p50, p99 := check.Quantiles(d)
	s.change(func() { s.measured, s.p50, s.p99 = len(d), p50, p99 })
}
