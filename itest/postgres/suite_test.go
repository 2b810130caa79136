package postgres

import (
	"testing"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// suite is a harness that runs everything, or where not all cases are to run what can fail
// because of the setup.
func suite(t *testing.T, s setup, replicated bool) drivertest.Harness {
	t.Helper()
	h := s.harness(t)
	h.Replicated, h.Sparse, h.Turn = replicated && !tier.All(), !tier.All(), both.Turn("postgres", 1)
	return h
}

func TestDriverOnOneServer(t *testing.T) { drivertest.Run(t, suite(t, newSetup(t, nil), false)) }

func TestDriverBehindAPooler(t *testing.T) {
	tier.Seldom(t)
	drivertest.Run(t, suite(t, newSetup(t, nil).behindPooler(t, true), true))
}

// What the pooler passes on as it is, like the order of joins, fails on one server too.
func TestDriverBehindAPoolerAlone(t *testing.T) {
	h := suite(t, newSetup(t, nil).behindPooler(t, false), true)
	if !tier.All() {
		h.Topics = []string{"watch", "target", "lost", "observed"}
	}
	drivertest.Run(t, h)
}

// A commit waits for the standby, and is an answer only then.
func TestDriverWithAStandby(t *testing.T) {
	drivertest.Run(t, suite(t, newSetup(t, nil).withStandby(t), true))
}

func TestRecipesOnOneServer(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, suite(t, newSetup(t, nil), false))
}

// The recipes send through the pooler what the cases of drivertest send, and are notified of changes
// as they are without one.
func TestRecipesBehindAPooler(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, newSetup(t, nil).behindPooler(t, true), true))
}

func TestRecipesBehindAPoolerAlone(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, newSetup(t, nil).behindPooler(t, false), true))
}

func TestRecipesWithAStandby(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, newSetup(t, nil).withStandby(t), true))
}
