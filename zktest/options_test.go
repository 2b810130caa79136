package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoTestMeetsARemovalOfContainersByChance: a server that removes containers each minute gives
// a test that runs then one request more, or a join that needs two.
func TestNoTestMeetsARemovalOfContainersByChance(t *testing.T) {
	opts, err := (*Options)(nil).complete()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, opts.ContainerCheck, time.Hour)
}
