package term

import (
	"maps"
	"slices"
)

// loseInTurn ends each hold after the loss of the hold before was reported. Only failpoint
// EndsInTurn uses it: there ReportLoss waits until the hook has returned.
func loseInTurn(bound []Bound, cause error) {
	for _, b := range bound {
		if b.Lose(cause) {
			b.ReportLoss()
		}
	}
}

// revivable is failpoint LossNotLatched at the deadline: it reports a loss that a late
// answer to a renewal undoes.
func revivable(t *Term) {
	t.mu.Lock()
	bound := slices.Collect(maps.Keys(t.bound))
	if t.drv != nil && t.ended == nil {
		t.tickLater(maxTick)
	}
	t.mu.Unlock()
	loseInTurn(bound, t.cfg.Cause(t.id, Deadline, nil))
}
