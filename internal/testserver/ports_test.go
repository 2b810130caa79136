package testserver

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoTwoDirsHaveTheSamePort: no server listens yet, so only the reservation keeps them apart.
func TestNoTwoDirsHaveTheSamePort(t *testing.T) {
	const n = 400 // of 12 000: without a reservation, 13 of the second are among the first
	seen := map[string]bool{}
	for range 2 {
		d, err := MakeDir("portstest", true)
		require.NoError(t, err)
		addrs, err := d.Ports(t.Context(), n)
		require.NoError(t, err)
		defer func() {
			require.NoError(t, d.Remove())
			l, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", addrs[0])
			require.NoError(t, err, "it is free again")
			require.NoError(t, l.Close())
		}()
		for _, a := range addrs {
			assert.False(t, seen[a], a)
			seen[a] = true
		}
	}
}
