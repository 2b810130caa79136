package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

// TestKeepsHaveTheTextsOfThePages: the zero value declares the strongest, and a higher value
// a weaker one.
func TestKeepsHaveTheTextsOfThePages(t *testing.T) {
	var k driver.Keep
	for _, want := range []string{"always", "until data is lost", "until the primary splits", "unknown"} {
		assert.Equal(t, want, k.String())
		k++
	}
	assert.Equal(t, driver.Keeps{Exclusion: driver.Always, Order: driver.Always, Tokens: driver.Always}, driver.Keeps{})
}
