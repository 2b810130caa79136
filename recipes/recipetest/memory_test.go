package recipetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnMemory(t *testing.T) {
	for _, k := range memtest.AllKinds() {
		t.Run(k.Name, func(t *testing.T) { recipetest.Run(t, memtest.Harness(k.Options, nil)) })
	}
	t.Run("NoForeign", func(t *testing.T) {
		recipetest.Run(t, memtest.WithoutForeign(memtest.Harness(memory.Options{}, nil)))
	})
}
