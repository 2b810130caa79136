package drivertest_test

import (
	"testing"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/drivertest"
)

// TestMemoryBackend is the conformance test of membackend.
func TestMemoryBackend(t *testing.T) {
	for _, k := range memtest.Kinds() {
		t.Run(k.Name, func(t *testing.T) { drivertest.Run(t, memtest.Harness(k.Options, nil)) })
	}
}
