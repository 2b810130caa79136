package command

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
)

func TestBenchFindsNoViolation(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		got := execute(t, url, "bench", "--clients", "4", "--locks", "2", "--hold", "0.001", "--duration", "5", "-o", "json")

		require.Equal(t, 0, got.code, got.stderr)
		var b schema.Bench
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &b))
		assert.Equal(t, []int{2, 4}, []int{b.Locks, b.Clients})
		assert.Positive(t, b.Acquisitions)
		assert.Positive(t, b.HandOff.Count)
		assert.GreaterOrEqual(t, b.Acquire.P50, schema.Fine(1), "%+v", b)
		assert.GreaterOrEqual(t, b.Acquire.Max, b.Acquire.P99)
		assert.Zero(t, b.OrderViolations+b.Overlaps)
		assert.Empty(t, execute(t, url, "ls").stdout, "nothing is left in a queue")
	})
}

func TestBenchPrintsText(t *testing.T) {
	t.Parallel()
	got := execute(t, "mem://", "bench", "--clients", "2", "--duration", "0.2")

	assert.Equal(t, 0, got.code)
	assert.Empty(t, got.stderr)
	for _, want := range []string{
		`^1 lock, 2 clients, for \S+, each hold 0s\n`, `\n  acquisitions +\d+  \d+/s\n`, `\n  hand-off +p50 \S+s  p99 \S+s  max \S+s\n`,
		`\n  fairness +0?1?\.\d{4} `, `\n  order violations +0\n`,
	} {
		assert.Regexp(t, want, got.stdout)
	}
	got = execute(t, "mem://", "bench", "--clients", "2", "--locks", "3")
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "fairlock: --locks 3 and --clients 2: want at least one lock, and a client for each\n")
}
