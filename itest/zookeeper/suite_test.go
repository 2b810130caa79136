package zookeeper

import (
	"testing"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// The servers of the suites are processes, so that this process has no goroutines of theirs.

// ensemble starts servers for a suite: they know its operator, and grant its longest TTL.
func ensemble(t *testing.T, opts zktest.Options) *zktest.Ensemble {
	opts.Tick, opts.MaxSession = zkTick, recipetest.EventTTL
	if opts.Properties == nil {
		opts.Properties = zkOperator()
	}
	return zktest.New(t, &opts)
}

// No server fails here, so a follower that is silent for a second wants nothing but a core,
// and is waited for.
func servers(t *testing.T, n int) drivertest.Harness {
	e := ensemble(t, zktest.Options{Members: n, Config: map[string]string{"syncLimit": "100"}})
	h := zkHarness(e, zkbackend.LayoutCurator)
	h.Replicated, h.Sparse, h.Turn = n > 1 && !tier.All(), !tier.All(), both.Turn("zk", n)
	return h
}

func TestDriverOnOneServer(t *testing.T) { drivertest.Run(t, servers(t, 1)) }

func TestDriverOnThreeServers(t *testing.T) { drivertest.Run(t, servers(t, 3)) }

// Servers with Netty, which TLS needs, may carry out a request of a connection after the
// client has made another. So what loses requests and replies runs on them too.
func TestDriverOnNetty(t *testing.T) {
	t.Parallel()
	kinds := map[string]zktest.Options{"TLS": {TLS: true}}
	topics := []string{"lost", "late"}
	if tier.All() {
		kinds["InTheClear"] = zktest.Options{Netty: true}
		topics = append(topics, "several", "data", "ops", "record")
	}
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			h := zkHarness(ensemble(t, opts), zkbackend.LayoutCurator)
			h.Topics, h.Replicated, h.Sparse = topics, !tier.All(), !tier.All()
			drivertest.Run(t, h)
		})
	}
}

// Where the servers enforce no permissions, entries are not sealed.
func TestDriverWithoutPermissions(t *testing.T) {
	h := zkHarness(ensemble(t, zktest.Options{Properties: map[string]string{"zookeeper.skipACL": "yes"}}), zkbackend.LayoutCurator)
	h.First = false
	h.Topics = []string{"first", "leave", "watch"}
	if tier.All() {
		h.Topics = append(h.Topics, "data", "marks", "order", "target")
	}
	drivertest.Run(t, h)
}

func TestDriverInKazoosLayout(t *testing.T) {
	h := zkHarness(ensemble(t, zktest.Options{}), zkbackend.LayoutKazoo)
	h.Topics = []string{"data", "first", "foreign", "marks", "names"}
	if tier.All() {
		h.Topics = append(h.Topics, "leave", "order", "watch")
	}
	drivertest.Run(t, h)
}

func TestRecipesOnOneServer(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, servers(t, 1))
}

func TestRecipesOnThreeServers(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, servers(t, 3))
}
