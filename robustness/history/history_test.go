package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/robustness/history"
)

// verdicts are what each oracle says about a record.
func verdicts(r record) map[string][]history.Violation {
	swept, _ := history.Sweep([]history.Line{r.line}, r.attempts, bound, r.until)
	return map[string][]history.Violation{
		"model":  history.Model([]history.Line{r.line}, r.attempts, 10*time.Second),
		"sweep":  swept,
		"replay": history.Replay(r.line, r.changes, r.attempts, grace),
	}
}

func TestWhatIsRightIsAccepted(t *testing.T) {
	for _, line := range lines() {
		for seed := range uint64(15) {
			for _, anonymous := range []bool{false, true} {
				name := fmt.Sprintf("%s, seed %d, no tokens %t", line.Name, seed, anonymous)
				if anonymous && line.Recipe == history.Reentrant {
					continue // what is nested is known by its token
				}

				r := play(line, seed, shape{clients: 8, attempts: 200, harm: 0.2, anonymous: anonymous})

				for oracle, found := range verdicts(r) {
					assert.Empty(t, found, "%s: %s", oracle, name)
				}
			}
		}
	}
}
