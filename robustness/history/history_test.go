package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/robustness/history"
)

// verdicts returns the violations that each oracle finds in a record.
func verdicts(r record) map[string][]history.Violation {
	swept, _ := history.Sweep([]history.Queue{r.queue}, r.attempts, bound, r.until)
	return map[string][]history.Violation{
		"model":  history.Model([]history.Queue{r.queue}, r.attempts, 10*time.Second),
		"sweep":  swept,
		"replay": history.Replay(r.queue, r.changes, r.attempts, always),
	}
}

func TestCorrectHistoriesAreAccepted(t *testing.T) {
	for _, queue := range queues() {
		for seed := range uint64(15) {
			for _, noTokens := range []bool{false, true} {
				name := fmt.Sprintf("%s, seed %d, no tokens %t", queue.Name, seed, noTokens)
				if noTokens && queue.Recipe == history.Reentrant {
					continue // only the token shows which hold another is nested in
				}

				r := simulate(queue, seed, options{clients: 8, attempts: 200, faultRate: 0.2, noTokens: noTokens})

				for oracle, found := range verdicts(r) {
					assert.Empty(t, found, "%s: %s", oracle, name)
				}
			}
		}
	}
}
