package trial

import (
	"fmt"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// thinking is how long the model may think about a stretch of a history. What it
// has not decided by then is a violation.
const thinking = 30 * time.Second

// consult asks all oracles. What nobody needs may stay for grace. The figures are
// those of the sweep.
func consult(h *History, grace time.Duration) ([]history.Violation, history.Figures) {
	found := history.Model(h.Lines, h.Attempts, thinking)
	swept, figures := history.Sweep(h.Lines, h.Attempts, promptly, 0)
	found = append(found, swept...)
	for _, line := range h.Lines {
		var own []history.Attempt
		for _, a := range h.Attempts {
			if a.Line == line.Name {
				own = append(own, a)
			}
		}
		found = append(found, history.Replay(line, h.Order[line.Name], own, grace)...)
	}
	return found, figures
}

// draw draws what the model refuses.
func (r *Result) draw(folder string) error {
	for _, line := range r.History.Lines {
		if _, err := history.Picture(folder, line, r.History.Attempts, thinking); err != nil {
			return fmt.Errorf("trial: draw %s: %w", line.Name, err)
		}
	}
	return nil
}
