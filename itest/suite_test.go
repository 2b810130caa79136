package itest

import (
	"testing"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/drivertest"
)

// The servers of the suites are processes, so that no goroutine of theirs can
// be taken for one of ours. The driver's suite counts goroutines, so it runs
// beside nothing else; its own stories run beside each other.

func TestDriverOnOneMember(t *testing.T) {
	drivertest.Run(t, etcdHarness(etcdtest.New(t, &etcdtest.Options{Processes: true})))
}

func TestDriverOnThreeMembers(t *testing.T) {
	drivertest.Run(t, etcdHarness(etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})))
}

func TestRecipesOnOneMember(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, etcdHarness(etcdtest.New(t, &etcdtest.Options{Processes: true})))
}

func TestRecipesOnThreeMembers(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, etcdHarness(etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})))
}
