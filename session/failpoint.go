package session

import (
	"maps"
	"slices"
)

// endInTurn is failpoint EndsInTurn: it ends each hold after the hook of the hold before
// has returned.
func (t *term) endInTurn(holds []*grant, reason Reason, err error) {
	go func() {
		for _, g := range holds {
			if g.lose(reason, err) {
				g.reportLoss()
				t.s.reports.flush()
			}
		}
	}()
}

// revivable is failpoint LossNotLatched at the deadline: it reports a loss that a late
// answer to a renewal undoes.
func (t *term) revivable() {
	t.mu.Lock()
	holds := slices.Collect(maps.Keys(t.grants))
	if t.drv != nil && t.ended == nil {
		t.tickLater(maxTick)
	}
	t.mu.Unlock()
	for _, g := range holds {
		if g.lose(ReasonDeadline, nil) {
			g.reportLoss()
		}
	}
}
