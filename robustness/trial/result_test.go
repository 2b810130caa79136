package trial

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// TestResultsOfEarlierRunsAreRead reads a result in which queues have the name that they had
// then, and writes one in the same form.
func TestResultsOfEarlierRunsAreRead(t *testing.T) {
	const stored = `{"Line": "cut-1-2", "Violations": [{"Property": "S1", "Oracle": "sweep", "Line": "cut-1-2", "Text": "two hold"}]}`
	var r Result
	require.NoError(t, json.Unmarshal([]byte(stored), &r))

	found := history.Violation{Property: "S1", Oracle: "sweep", Queue: "cut-1-2", Text: "two hold"}
	assert.Equal(t, "cut-1-2", r.Queue)
	assert.Equal(t, []history.Violation{found}, r.Violations)

	text, err := json.Marshal(History{Queues: []history.Queue{{Name: "q"}}, Attempts: []history.Attempt{{Queue: "q"}}})
	require.NoError(t, err)
	assert.Contains(t, string(text), `"Lines":[{"Name":"q"`)
	assert.Contains(t, string(text), `"Line":"q"`)
	text, err = json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"Line":"cut-1-2"`)
}
