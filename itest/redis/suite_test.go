package redis

import (
	"cmp"
	"os"
	"testing"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// suite is a harness that runs everything, or where not all cases are to run what can fail
// because of the setup.
func suite(t *testing.T, s setup, replicated bool) drivertest.Harness {
	t.Helper()
	h := s.harness(t)
	h.Replicated, h.Sparse, h.Turn = replicated && !tier.All(), !tier.All(), both.Turn("redis", 1)
	return h
}

func TestDriverOnOneServer(t *testing.T) { drivertest.Run(t, suite(t, oneServer(t, nil), false)) }

// A renewal is an answer only when a replica has it.
func TestDriverWithSentinels(t *testing.T) { drivertest.Run(t, suite(t, withSentinels(t), true)) }

func TestDriverInACluster(t *testing.T) {
	tier.Seldom(t)
	drivertest.Run(t, suite(t, inCluster(t), true))
}

func TestRecipesOnOneServer(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, suite(t, oneServer(t, nil), false))
}

func TestRecipesWithSentinels(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, withSentinels(t), true))
}

func TestRecipesInACluster(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, inCluster(t), true))
}

// valkey is a server of "make valkey".
func valkey() *redistest.Options {
	return &redistest.Options{Program: cmp.Or(os.Getenv("FAIRLOCK_VALKEY"), "../../bin/valkey/usr/bin/valkey-server")}
}

func TestDriverOnValkey(t *testing.T) {
	tier.Seldom(t)
	drivertest.Run(t, suite(t, oneServer(t, valkey()), false))
}

func TestRecipesOnValkey(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, suite(t, oneServer(t, valkey()), false))
}
