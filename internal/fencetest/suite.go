package fencetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/internal/tier"
)

// Dir returns a folder, in memory if there is room, so that a sync of its files costs little. It is
// removed when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := testserver.MakeDir("fairlock-fencetest", true)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Remove() }) // nothing depends on it
	return dir.Path()
}

// TestOrders checks that a kit loses no update in any order of a few holders, and that fenced
// writes alone do.
func TestOrders(t *testing.T, open Opener, address string) {
	const few = 3
	holders := few
	if tier.All() {
		holders = 4
	}
	orders, unchecked := InEveryOrder(t, open, address, Plain, few)
	_, writes := InEveryOrder(t, open, address, Writes, few)
	all, kit := InEveryOrder(t, open, address, Kit, holders)

	t.Logf("of %d orders of %d holders, %d lost an update without a check, %d with fenced writes", orders, few, unchecked, writes)
	t.Logf("of %d orders of %d holders, %d lost an update with the kit", all, holders, kit)
	assert.Greater(t, unchecked, writes)
	assert.Greater(t, writes, orders/5)
	assert.Zero(t, kit)
}

// TestLoad checks that a kit loses no update under the load, and that the same load loses some
// without checks and with fenced writes alone.
func TestLoad(t *testing.T, open Opener, address string) {
	for _, k := range []Kind{Plain, Writes} {
		t.Run(string(k), func(t *testing.T) {
			got := Run(t, Load{Open: open, Address: address, Kind: k, Rounds: 1000, UntilLost: !tier.All()})

			assert.Empty(t, got.Failed)
			assert.Positive(t, got.Lost)
		})
	}
	t.Run(string(Kit), func(t *testing.T) {
		rounds := 150
		if tier.All() {
			rounds = 10_000
		}
		got := Run(t, Load{Open: open, Address: address, Kind: Kit, Rounds: rounds})

		assert.Empty(t, got.Failed)
		assert.Positive(t, got.Stops)
		assert.Positive(t, got.Kills)
		assert.Greater(t, got.Acknowledged, rounds/3)
		assert.Zero(t, got.Lost)
	})
}
