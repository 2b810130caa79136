package itest

import (
	"testing"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/drivertest"
	"github.com/fairlock/fairlock/zktest"
)

// The servers of the suites are processes, so that no goroutine of theirs can
// be taken for one of ours. The driver's suite counts goroutines, so it runs
// beside nothing else; its own stories run beside each other.

func etcdOf(t *testing.T, members int) drivertest.Harness {
	return etcdHarness(etcdtest.New(t, &etcdtest.Options{Members: members, Processes: true}))
}

// No member fails here, so a follower that is silent for a second wants nothing
// but a core, and is waited for.
func zkOf(t *testing.T, members int) drivertest.Harness {
	return zkHarness(zktest.New(t, &zktest.Options{
		Members: members, Tick: zkTick, Config: map[string]string{"syncLimit": "100"},
		Properties: zkOperator(),
	}))
}

func TestDriverOnEtcd1(t *testing.T)      { drivertest.Run(t, etcdOf(t, 1)) }
func TestDriverOnEtcd3(t *testing.T)      { drivertest.Run(t, etcdOf(t, 3)) }
func TestDriverOnZooKeeper1(t *testing.T) { drivertest.Run(t, zkOf(t, 1)) }
func TestDriverOnZooKeeper3(t *testing.T) { drivertest.Run(t, zkOf(t, 3)) }

func TestRecipesOnEtcd1(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, etcdOf(t, 1))
}

func TestRecipesOnEtcd3(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, etcdOf(t, 3))
}

func TestRecipesOnZooKeeper1(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, zkOf(t, 1))
}

func TestRecipesOnZooKeeper3(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, zkOf(t, 3))
}
