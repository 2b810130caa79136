package session

import (
	"context"
	"maps"
	"slices"

	"github.com/fairlock/fairlock/next/driver"
)

// entersFirst adds a handle, and checks only after minRest whether the hold is
// over. It is what failpoint EntersFirst does.
func (h *Hold) entersFirst(ctx context.Context, h2 *Hold) {
	g := h.g
	g.mu.Lock()
	g.handles[h2] = struct{}{}
	g.mu.Unlock()
	driver.Sleep(context.WithoutCancel(ctx), g.t.s.clock, minRest)
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.overErr() != nil {
		delete(g.handles, h2)
	}
}

// endInTurn ends each hold after the hook of the hold before has returned. It is
// what failpoint EndsInTurn does.
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

// revivable reports a loss that a late answer to a renewal undoes. It is what
// failpoint LossNotLatched does at the deadline.
func (t *term) revivable() {
	t.mu.Lock()
	told := slices.Collect(maps.Keys(t.grants))
	if t.drv != nil && t.ended == nil {
		t.tickLater(maxTick)
	}
	t.mu.Unlock()
	for _, g := range told {
		if g.lose(ReasonDeadline, nil) {
			g.reportLoss()
		}
	}
}
