package trial

import (
	"fmt"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// modelTimeout bounds the model's search for each stretch of a history. A stretch that
// it has not decided by then is a violation.
const modelTimeout = 30 * time.Second

// runOracles runs all oracles. grace is that of history.Replay. The figures are those of the
// sweep.
func runOracles(h *History, grace func(over, to history.Instant) time.Duration) ([]history.Violation, history.Figures) {
	found := history.Model(h.Queues, h.Attempts, modelTimeout)
	swept, figures := history.Sweep(h.Queues, h.Attempts, promptly, 0)
	found = append(found, swept...)
	for _, queue := range h.Queues {
		var own []history.Attempt
		for _, a := range h.Attempts {
			if a.Queue == queue.Name {
				own = append(own, a)
			}
		}
		if h.Order == nil { // the service has forgotten it
			continue
		}
		found = append(found, history.Replay(queue, h.Order[queue.Name], own, grace)...)
	}
	return found, figures
}

// drawPictures draws what the model rejects.
func (r *Result) drawPictures(folder string) error {
	for _, queue := range r.History.Queues {
		if _, err := history.Picture(folder, queue, r.History.Attempts, modelTimeout); err != nil {
			return fmt.Errorf("trial: draw %s: %w", queue.Name, err)
		}
	}
	return nil
}
