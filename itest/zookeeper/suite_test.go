package zookeeper

import (
	"testing"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// The servers of the suites are processes, so that this process has no goroutines of theirs.

// No server fails here, so a follower that is silent for a second wants nothing but a core,
// and is waited for.
func servers(t *testing.T, n int) drivertest.Harness {
	h := zkHarness(zktest.New(t, &zktest.Options{
		Members: n, Tick: zkTick, Config: map[string]string{"syncLimit": "100"}, Properties: zkOperator(),
	}), zkbackend.LayoutCurator)
	h.Replicated, h.Sparse = n > 1 && !tier.All(), !tier.All()
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
			opts.Tick, opts.Properties = zkTick, zkOperator()
			h := zkHarness(zktest.New(t, &opts), zkbackend.LayoutCurator)
			h.Topics, h.Replicated, h.Sparse = topics, !tier.All(), !tier.All()
			drivertest.Run(t, h)
		})
	}
}

// Where the servers enforce no permissions, entries are not sealed.
func TestDriverWithoutPermissions(t *testing.T) {
	h := zkHarness(zktest.New(t, &zktest.Options{Tick: zkTick, Properties: map[string]string{"zookeeper.skipACL": "yes"}}), zkbackend.LayoutCurator)
	h.First = false
	h.Topics = []string{"first", "leave", "watch"}
	if tier.All() {
		h.Topics = append(h.Topics, "data", "marks", "order", "target")
	}
	drivertest.Run(t, h)
}

func TestDriverInKazoosLayout(t *testing.T) {
	h := zkHarness(zktest.New(t, &zktest.Options{Tick: zkTick, Properties: zkOperator()}), zkbackend.LayoutKazoo)
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
