package etcd

import (
	"testing"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// The servers of the suites are processes, so that no goroutine of theirs can be taken
// for one of ours.

func members(t *testing.T, n int) drivertest.Harness {
	h := etcdHarness(etcdtest.New(t, &etcdtest.Options{Members: n, Processes: true}))
	h.Replicated, h.Sparse, h.Turn = n > 1 && !tier.All(), !tier.All(), both.Turn("etcd", n)
	return h
}

func TestDriverOnOneMember(t *testing.T)    { drivertest.Run(t, members(t, 1)) }
func TestDriverOnThreeMembers(t *testing.T) { drivertest.Run(t, members(t, 3)) }

func TestRecipesOnOneMember(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, members(t, 1))
}

func TestRecipesOnThreeMembers(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, members(t, 3))
}
