package recipetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/drivertest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnMemory(t *testing.T) {
	for _, k := range append(memory.Kinds(), memory.Lagging(), memory.Unarmed()) {
		t.Run(k.Name, func(t *testing.T) { recipetest.Run(t, memory.Harness(k.Options, nil)) })
	}
}
