package sqlfence

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/tier"
)

// stores has one way to use the package on each store.
var stores = []kit{{"native", "marks", "committed"}, {"mysql", "marks", "repeatable"}, {"sqlite", "marks", "deferred"}}

// others are the other ways, which make test-all goes through.
var others = []kit{
	{"native", "marks", "repeatable"},
	{"pgx", "row", "committed"},
	{"pgx", "condition", "repeatable"},
	{"mysql", "marks", "committed"},
	{"mysql", "marks", "old"},
	{"mysql", "row", "repeatable"},
	{"mysql", "condition", "committed"},
	{"sqlite", "row", "immediate"},
	{"sqlite", "condition", "deferred"},
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	for _, k := range stores {
		t.Run(k.String(), func(t *testing.T) { fencetest.TestOrders(t, open, k.address(k.prepared(t))) })
	}
}

func TestALoadWithStopsAndKillsLosesNoUpdate(t *testing.T) {
	for _, k := range stores {
		t.Run(k.String(), func(t *testing.T) { fencetest.TestLoad(t, open, k.address(k.prepared(t))) })
	}
}

func TestTheOtherFormsLoseNoUpdate(t *testing.T) {
	if !tier.All() {
		return
	}
	for _, k := range others {
		t.Run(k.String(), func(t *testing.T) {
			address := k.address(k.prepared(t))
			_, lost := fencetest.InEveryOrder(t, open, address, fencetest.Kit, 3)
			assert.Zero(t, lost)

			got := fencetest.Run(t, fencetest.Load{Open: open, Address: address, Kind: fencetest.Kit, Rounds: 500})

			assert.Empty(t, got.Failed)
			assert.Greater(t, got.Acknowledged, 250)
			assert.Zero(t, got.Lost)
		})
	}
}
