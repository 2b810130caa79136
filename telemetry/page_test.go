package telemetry_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/telemetry"
)

// TestThePageListsTheMetrics: the table of docs/monitoring.md is made from the list.
func TestThePageListsTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/monitoring.md")
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| Prometheus | OpenTelemetry | kind | labels | value |\n|---|---|---|---|---|\n")
	for _, m := range telemetry.Metrics() {
		var labels []string
		for _, a := range m.Attributes {
			labels = append(labels, "`"+a.Label()+"`")
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s |\n", m.Prometheus, m.Name, m.Kind, strings.Join(labels, ", "), m.Help)
	}
	for _, a := range []telemetry.Attribute{
		telemetry.LockName, telemetry.LockKind, telemetry.LockMode, telemetry.Outcome, telemetry.HoldEnd, telemetry.Reason,
	} {
		assert.True(t, strings.Contains(string(page), "`"+string(a)+"`"), "docs/monitoring.md names the attribute of each label: not %s", a)
	}

	assert.True(t, strings.Contains(string(page), "\n\n"+table.String()+"\n"), "docs/monitoring.md must have this table:\n%s", table.String())
}
