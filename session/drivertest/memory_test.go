package drivertest_test

import (
	"testing"

	"github.com/fairlock/fairlock/session/drivertest"
	"github.com/fairlock/fairlock/session/drivertest/memory"
)

// TestMemoryBackend is the conformance test of membackend.
func TestMemoryBackend(t *testing.T) {
	for _, k := range memory.Kinds() {
		t.Run(k.Name, func(t *testing.T) { drivertest.Run(t, memory.Harness(k.Options, nil)) })
	}
}
