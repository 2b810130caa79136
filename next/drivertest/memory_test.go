package drivertest_test

import (
	"testing"

	"github.com/fairlock/fairlock/next/drivertest"
	"github.com/fairlock/fairlock/next/memory"
	"github.com/fairlock/fairlock/next/memtest"
)

// TestMemoryBackend is the conformance test of membackend.
func TestMemoryBackend(t *testing.T) {
	for _, k := range memtest.AllKinds() {
		t.Run(k.Name, func(t *testing.T) { drivertest.Run(t, memtest.Harness(k.Options, nil)) })
	}
	t.Run("NoOptional", func(t *testing.T) {
		h := memtest.Harness(memory.Options{NoOptional: true}, nil)
		h.Topics = []string{"marks", "data", "ops", "lost", "late"} // the others count on the Ops of a Leave
		drivertest.Run(t, h)
	})
}
