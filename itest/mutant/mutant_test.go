package mutant

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A patch that no longer applies finds nothing, so it must not be forgotten until the next time
// that all are tried.
func TestEachPatchApplies(t *testing.T) {
	all, err := All(".")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(all), 40)
	for _, m := range all {
		_, err := m.Overlay(t.Context(), "../..", t.TempDir())
		assert.NoError(t, err)
	}
}
