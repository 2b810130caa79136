package defect

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryDefectHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range All() {
		seen[d.String()] = true
	}
	assert.Len(t, seen, int(end-None)-1)
	assert.Equal(t, "ReadAfterOwn", (end - 1).String())
	assert.Equal(t, "unknown", end.String())
}

func TestNothingIsPlanted(t *testing.T) {
	for _, d := range All() {
		assert.False(t, Is(d), d)
	}
}
