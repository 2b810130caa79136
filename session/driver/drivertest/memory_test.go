package drivertest_test

import (
	"testing"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// TestMemoryBackend is the conformance test of membackend.
func TestMemoryBackend(t *testing.T) {
	for _, k := range memtest.AllKinds() {
		t.Run(k.Name, func(t *testing.T) { drivertest.Run(t, memtest.Harness(k.Options, nil)) })
	}
	t.Run("NoForeign", func(t *testing.T) {
		drivertest.Run(t, memtest.WithoutForeign(memtest.Harness(memory.Options{}, nil)))
	})
	t.Run("NoOptional", func(t *testing.T) {
		h := memtest.Harness(memory.Options{NoOptional: true}, nil)
		h.Topics = []string{"marks", "data", "ops", "lost", "late"} // the others count on the Ops of a Leave
		drivertest.Run(t, h)
	})
}
