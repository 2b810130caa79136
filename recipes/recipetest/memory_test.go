package recipetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/memtest"
	nexttest "github.com/fairlock/fairlock/next/memtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnMemory(t *testing.T) {
	for _, k := range memtest.AllKinds() {
		t.Run(k.Name, func(t *testing.T) { recipetest.Run(t, recipetest.FromOld(memtest.Harness(k.Options, nil))) })
	}
}

func TestOnNextMemory(t *testing.T) {
	for _, k := range nexttest.AllKinds() {
		t.Run(k.Name, func(t *testing.T) { recipetest.Run(t, nexttest.Harness(k.Options, nil)) })
	}
}
