package failpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachFailpointHasItsName(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		seen[p.String()] = true
	}
	assert.Len(t, seen, int(end-none)-1)
	assert.NotContains(t, seen, "")
	assert.Equal(t, "PastOfFirst", (end - 1).String())
}

func TestAllFailpointsAreOffAtFirst(t *testing.T) {
	for _, p := range All() {
		assert.False(t, On(p), p)
	}
}
